"""Charts of the report, a module a chart: data to SVG, and the same data as a table for those who read it so."""

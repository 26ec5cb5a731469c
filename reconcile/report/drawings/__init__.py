"""Charts of the report: data to SVG, and the same data as a table for those who read it so.

`chart` has the parts that all share, `curves` the charts of one series each, and `windows` those of the
compared windows.
"""

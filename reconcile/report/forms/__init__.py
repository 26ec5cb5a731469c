"""Other forms of a report: `markdown` with CSV, and `exposition` for Prometheus."""

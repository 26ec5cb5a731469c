"""Other forms of a report: `markdown` with CSV, `exposition` for Prometheus, and a local `server` of the files."""

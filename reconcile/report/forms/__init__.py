"""Other forms of a report: `text_forms` are Markdown, CSV and the metrics of Prometheus."""

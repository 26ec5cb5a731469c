"""Scenarios: rows, a watermark and a trigger in a JSON file, and the panes that result from it."""

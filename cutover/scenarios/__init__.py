"""Scenarios: rows, a watermark and a trigger in a JSON file, and the panes that result from it.

`reading` parses the file; an outcome is drawn by `plot` and checked by `compare`.
"""

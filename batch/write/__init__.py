"""Outputs of a run, from staged rows to one publication.

`result` computes the planned windows, and `publish` checks them against the definition's expectations and commits in a
fixed order: what was scanned, the windows (`replace`), then the row that makes the run count.
"""

"""Audits: a definition gives the same result for every replay of its log, and what is served stays right in KAPPA.

`run` replays and names the expressions that differ, `noise` measures by how much, and `window_sample` recomputes a
random sample of final windows from the log and compares.
"""

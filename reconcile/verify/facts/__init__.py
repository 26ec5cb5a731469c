"""Facts that the invariants check, read once from one version of each table (`source`) and from the log.

`facts` are the values, which `gather` reads as they are needed: `rows`, `log_counts`, `recompute` and `results`.
"""

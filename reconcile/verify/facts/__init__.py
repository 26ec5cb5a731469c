"""Facts that the invariants check, read once from one version of each table (`source`) and from the log.

`facts` are the values, which `recompute` gathers as they are needed from `rows`, `log_counts` and `results`.
"""

"""Facts that the invariants check, read once from one version of each table and from the log (`source`).

`facts` are the values, which `recompute` gathers as they are needed from `rows`.
"""

"""The installation's own history, in tables that are only appended to.

`versions` are the streams of a pipeline, `stages` and `swaps` decide what is served, `pins` (with savepoints) hold
epochs, `losses` lists records that are gone. Every step has a `signature`; `restore` repairs rows
that another writer changed.
"""

"""The installation's own history, in tables that are only appended to.

`versions` are the streams of a pipeline, `served` is what people read: stages and swaps. `pins` (with savepoints) hold
epochs, `losses` lists records that are gone. `restore` repairs rows that another writer changed.
"""

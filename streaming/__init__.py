"""The low-latency path: one stateless query over a table that is the state, one fenced commit per epoch.

`driver` runs one pipeline and keeps a query of `source` running: `process` surrounds it (lock, heartbeat, metrics),
`microbatch` handles each epoch with `panes`, `sink` commits it, and `compaction` folds old files between two
epochs. `recovery` continues a stream after a loss or from an earlier epoch, `replacement` serves another stream in its
place, `simulation` runs scenarios and repeated epochs on this path.
"""

"""The log: its identity, offsets and settings, independent of the meaning of its records.

`cut` is a position and needs no client. `kafka` is the client, configured by `options`, with `topic_partitions` for
joins; `reachability` and `transient_errors` explain and retry failures. `record_batches` reads what proves that a log
is complete.
"""

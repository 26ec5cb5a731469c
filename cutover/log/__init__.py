"""The log: its identity, offsets and settings, independent of the meaning of its records.

`cut` is a position and needs no client. `kafka` is the client, configured by `options`, with `topic_partitions` for
joins; `reachability` and `transient_errors` explain and retry failures. `marks` and `record_batches` read what proves
that a log is the same and complete.
"""

"""The driver as a process, apart from the records that it reads.

`context` and `time_policy` are its inputs, `lock` admits one driver per pipeline, `heartbeat` reports liveness with the
problems of `health` and `backpressure`, `driver_metrics` and `driver_lineage` report to other systems, and `detached`
starts, finds and stops drivers that run without a terminal.
"""

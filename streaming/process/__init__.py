"""The driver as a process, apart from the records that it reads.

`context` and `time_policy` are its inputs, `heartbeat` admits one driver per pipeline, reports liveness with the
problems of `health`, and starts, finds and stops drivers that run without a terminal. `driver_metrics` reports to other
systems.
"""

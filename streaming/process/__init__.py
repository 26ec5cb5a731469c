"""The driver as a process, apart from the records that it reads.

`context` and `time_policy` are its inputs, `heartbeat` admits one driver per pipeline and reports liveness with the
problems of `health`, `driver_metrics` reports to other systems, and `detached` starts, finds and stops drivers that run
without a terminal.
"""

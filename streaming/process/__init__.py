"""The driver as a process, apart from the records that it reads.

`context` has its inputs and its problems, `time_policy` its times; `heartbeat` admits one driver per pipeline, reports
liveness with the problems, and starts, finds and stops drivers that run without a terminal. `driver_metrics` reports to
other systems.
"""

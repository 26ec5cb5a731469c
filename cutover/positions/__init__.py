"""Positions of jobs that Cutover did not write: up to which offsets a table contains the records of a topic.

`spark_checkpoint` reads what a Structured Streaming query has recorded: its batches with their offsets and watermarks,
and its stateful operators, from which follows which records it drops. `delta_versions` maps the versions of the query's
Delta table to these batches, and `followed_job` archives both before they are removed. `position` combines both into
the newest position, in the form that any job can record.
"""

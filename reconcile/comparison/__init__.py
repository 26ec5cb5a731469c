"""Two sides as relations, their digests, and the keyed diff.

`sides` says what is known of each path at a cut, and creates the tables of both; `layout` is these tables and the
columns that are compared (`column_types`). `digests` finds windows that differ and describes their segments, `diff`
their rows. `batch_job` and `job_table` compare tables of a team's own jobs (`typed_texts`).
"""

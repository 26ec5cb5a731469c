"""Table against table: seal, digests, diff, causes, verdict. Knows neither path; reads tables and the log.

`run` is the sequence of one comparison, and `compare` its content: `preconditions` seals both sides, `comparison` finds
the rows that differ, `attribution` proves their causes, and `verdict` decides and records. `result` is the outcome as
values, which `report` and `pages` show. `early`, `advisor`, `cost` and `audit` measure the paths; `verify` checks
invariants, `watch` evaluates alerts, and `gate` moves what is served. `selftest`
measures the errors of all this, and `external` compares any two tables.
"""

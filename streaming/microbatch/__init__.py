"""One micro-batch from top to bottom.

`engine` is the sequence: `continuity` checks the log, `enrichment` holds the dimensions, `aggregate` parses, classifies
and aggregates in one pass, with overflow to `spill`, `dedup_state` is state between epochs,
`epoch_record` describes what was read and decided, and commits data and offsets.
"""

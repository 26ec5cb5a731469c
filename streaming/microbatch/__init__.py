"""One micro-batch from top to bottom.

`engine` is the sequence: `continuity` checks the log, `aggregate` parses, classifies and aggregates in one pass,
with overflow to files, `dedup_state` is state between epochs, `epoch_record` holds the dimensions, describes what was
read and decided, and commits data and offsets.
"""

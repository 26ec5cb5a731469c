"""Source of records: the query, its start offsets, and the check that the log is still the same."""

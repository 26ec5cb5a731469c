"""From a record to a partial aggregate, and from partial aggregates to a result; shared by both paths."""

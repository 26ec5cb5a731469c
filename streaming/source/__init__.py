"""Where records come from: the query, the offsets it begins at, and whether the log still is the same."""

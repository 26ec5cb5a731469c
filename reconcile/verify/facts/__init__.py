"""Facts that the invariants check, read once from one version of each table and from the log."""

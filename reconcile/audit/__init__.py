"""Whether a definition gives the same answer however its log is replayed."""

"""What a run reads: an index, a log that lost some of it, sessions, twins."""

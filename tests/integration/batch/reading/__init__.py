"""Reads of a batch run: an index, a log that lost records, sessions, twins."""

"""Integrity of stored tables: detection of changes, losses and rewritten logs."""

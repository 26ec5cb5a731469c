"""Integrity of what was stored, each kind of damage in one module.

Tables: `foreign_commits` and `table_weights` detect other writers, `high_water` a cut-off history, `scrub` changed
bytes. Log: `same_log` detects a rewritten one, `complete_read` and `lost_records` missing records.
"""

"""Faults of the log and of what comes in."""

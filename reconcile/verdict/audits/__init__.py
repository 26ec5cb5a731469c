"""Recorded audits of windows, and the findings that are still open."""

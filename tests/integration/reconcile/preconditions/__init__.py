"""Preconditions of a verdict: logs, seals, settings and files."""

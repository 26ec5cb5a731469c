"""Metrics: their names, and text files that are replaced atomically. Failures are logged and never fail a run."""

"""Invariants that must always hold: record counts, epochs, prefix, path agreement, time, determinism and writers.

`record` evaluates `invariants`, pure checks over `facts`, and keeps the history of their results.
"""

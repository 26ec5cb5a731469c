"""Invariants that must always hold: record counts, epochs, prefix, path agreement, time, determinism and writers.

`runner` evaluates `invariants`, pure checks over `facts`; `model` is their result, and `record` its history.
"""

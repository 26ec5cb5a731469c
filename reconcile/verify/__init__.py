"""Invariants that must always hold: record counts, epochs, prefix, path agreement, time, determinism and writers."""

"""Faults of batch, of what comparisons say, and of what is decided by it."""

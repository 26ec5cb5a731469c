"""Invariants N1 to N9, each a pure check over facts."""

"""Invariants N1 to N9, each a pure check over facts. N7, that a fault happened, is checked by the tests of faults."""

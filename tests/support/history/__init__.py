"""Invented history of an installation: comparisons, audits, self-tests, moves of the gate."""

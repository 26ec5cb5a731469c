"""Verdicts of comparisons, their reports and their history."""

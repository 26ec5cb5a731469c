"""Measurements behind a decision, run by hand; the ADR that rests on one names it."""

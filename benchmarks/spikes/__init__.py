"""Measurements behind decisions, run manually; the ADR that depends on one names it."""

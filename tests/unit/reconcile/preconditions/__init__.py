"""Preconditions of a comparison."""

"""Sides of a comparison, and ways to make them differ."""

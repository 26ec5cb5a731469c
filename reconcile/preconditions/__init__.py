"""Conditions for a comparison of two sides; if one does not hold, there is no verdict on the data."""

"""Comparison of any two tables, not only those that Cutover wrote."""

"""Repairs: previewed, published, killed and undone."""

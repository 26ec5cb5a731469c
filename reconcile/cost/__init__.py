"""Costs of both paths, and of each nine of agreement."""

"""Costs of both paths, and of each nine of agreement: `measure` reads the records, `fold` computes."""

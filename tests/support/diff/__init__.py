"""Pairs of small tables, and what each tool says of them."""

"""Expressions: Spark SQL text from a whitelist, typed and compiled to both engines.

`statements` parses, `walk` turns the tree into `terms` with `operators` and `functions`, and `compiler` is the entry.
"""

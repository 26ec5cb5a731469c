"""Expressions: Spark SQL text from a whitelist, typed and compiled to both engines.

`compiler` is the entry: it parses, and turns the tree into `terms` with `operators` and `functions`; `statements` names
what is rejected.
"""

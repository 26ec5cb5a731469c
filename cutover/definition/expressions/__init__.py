"""Expressions: Spark SQL text from a whitelist, typed and compiled to both engines."""

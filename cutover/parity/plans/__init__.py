"""Spark query plans, live or printed.

The readers `live` and `printed` produce one form (`model`), to which `findings` applies the rules.
"""

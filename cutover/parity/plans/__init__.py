"""Spark query plans, live or printed.

The readers `live` and `printed` produce one form, to which `findings` applies the rules.
"""

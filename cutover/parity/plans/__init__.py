"""Spark query plans: three readers produce one form, to which the parity rules are applied."""

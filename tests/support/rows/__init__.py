"""Rows and records of a test, and the definitions that they are for."""

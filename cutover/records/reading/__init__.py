"""Exact reads of the log by Spark, and the planning of their offset ranges."""

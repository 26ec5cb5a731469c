"""Exact reads of the log by Spark, and which offsets to read."""

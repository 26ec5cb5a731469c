"""Exact reads of the log by Spark.

`scan` reads offset ranges.
"""

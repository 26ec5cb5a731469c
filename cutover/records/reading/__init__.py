"""Exact reads of the log by Spark.

`scan` reads offset ranges, `batch_headers` the headers that account for offsets without a record.
"""

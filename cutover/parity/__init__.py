"""Constructs on which a stream and a batch cannot agree, found in SQL and Spark jobs before anything runs."""

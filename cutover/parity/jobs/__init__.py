"""Spark jobs in Python: their statements are followed, and each query is judged by its own lineage."""

"""Serving of results to readers, and removal of files that no reader needs.

`views` serves DuckDB, `serving_table` other engines, `postgres_copy` PostgreSQL; `vacuum` deletes the rest.
"""

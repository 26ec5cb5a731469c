"""Engines, Spark and DuckDB: sessions, pinned settings, and the effective settings of a running process."""

"""Parts of the attribution, each alone: DuckDB in memory, an index of a few rows, a log in memory."""

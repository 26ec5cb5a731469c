"""Files of records, CSV or JSON lines, compressed or not; cells are validated by the same rules as on both paths."""

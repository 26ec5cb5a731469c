"""Delta tables without a JVM: files, checksums, commits, schemas, and how DuckDB reads them."""

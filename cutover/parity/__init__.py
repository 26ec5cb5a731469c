"""Static analysis of SQL and Spark jobs: constructs on which a stream and a batch differ."""

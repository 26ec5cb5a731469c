"""Windows and joins of every kind, and the Yahoo Streaming Benchmark."""

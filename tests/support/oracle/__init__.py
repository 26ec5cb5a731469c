"""What a producer in a test knows of its own records, held against the books of a stream."""

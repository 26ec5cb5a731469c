"""A test producer's knowledge of the records it sent, compared with the books of a stream."""

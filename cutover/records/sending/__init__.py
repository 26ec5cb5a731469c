"""Files into a topic: read, checked, ordered by log time, sent once."""

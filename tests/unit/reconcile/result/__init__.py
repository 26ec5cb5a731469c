"""Values and words of results."""

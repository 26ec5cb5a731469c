"""History of comparisons and differences."""

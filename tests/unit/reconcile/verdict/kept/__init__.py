"""What the history keeps of comparisons and of differences."""

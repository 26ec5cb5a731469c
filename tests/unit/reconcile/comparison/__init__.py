"""Both sides, and the diff between them."""

"""What audits of windows found, as it is kept, and what of it still stands."""

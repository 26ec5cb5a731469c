"""What a comparison comes to, and what is kept of it."""

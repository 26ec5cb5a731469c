"""Many epochs, and whether anything grows."""

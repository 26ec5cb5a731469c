"""What people get to see: text and cells from data made harmless, drawings, the terminal."""

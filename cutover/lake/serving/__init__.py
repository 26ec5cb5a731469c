"""What people read, and what may be vacuumed."""

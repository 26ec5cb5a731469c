"""What an epoch costs, and what a driver keeps up with."""

"""What both paths cost, and what each nine of agreement buys."""

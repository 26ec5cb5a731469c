"""Runbooks as data: what a page says of itself, its sections, and the commands in it with what they should print."""

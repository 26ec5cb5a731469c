"""The commands of the streaming path."""

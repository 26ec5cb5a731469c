"""Sending of a file to a topic: records are validated, sorted by log time and sent exactly once."""

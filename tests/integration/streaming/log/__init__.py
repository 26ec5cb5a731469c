"""Logs that lose, change, wait and roll back."""

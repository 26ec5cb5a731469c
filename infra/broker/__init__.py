"""The broker, and who sets the timestamps of its topics."""

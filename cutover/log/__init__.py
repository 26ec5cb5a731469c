"""The log: its identity, its offsets, its settings. Nothing here knows what the records mean."""

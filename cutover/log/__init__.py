"""The log: its identity, offsets and settings, independent of the meaning of its records."""

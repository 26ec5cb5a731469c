"""Faults of the driver: killed, doubled, misled, and the same log in other epochs."""

"""Inputs of a run: one scan of new offsets, its index, sessions, dimensions, and a team's own SQL."""

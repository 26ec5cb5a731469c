"""Panes: what of a window comes out, and when, in plain Python; the oracle of every engine that emits panes."""

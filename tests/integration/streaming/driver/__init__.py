"""Drivers that die, compete, fold and tell what they cost."""

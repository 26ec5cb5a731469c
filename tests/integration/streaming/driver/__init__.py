"""Drivers that die, compete, fold and record their cost."""

"""Definitions that `cutover adopt` proposes."""

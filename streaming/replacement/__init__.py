"""Replacement of the serving stream by another version or a changed definition: fill it, compare both, switch over."""

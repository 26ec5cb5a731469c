"""Helpers shared by tests of every kind."""

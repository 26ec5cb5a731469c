"""Audit of determinism: a definition must give the same result for every replay of its log."""

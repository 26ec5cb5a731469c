"""Logs: drawn, held in memory, written to a real topic, cut and written again."""

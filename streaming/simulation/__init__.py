"""Scenarios on the real streaming path, with clock and watermark from a script."""

"""Millions of keys in open windows: what the driver's two processes take, and what a reader takes."""

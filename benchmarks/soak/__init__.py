"""Soak test over many epochs: growth of times, files and memory."""

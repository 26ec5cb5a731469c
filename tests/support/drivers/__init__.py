"""Drivers in this process, what drives them, and what must hold of what they wrote."""

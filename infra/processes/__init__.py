"""Processes of an installation: their supervisor, identities, ports, memory, and their end."""

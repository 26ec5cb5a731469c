"""The driver as a process: what it is given, its lock, its heartbeat, its health, and why it ended."""

"""Recovery of a stream: continuing after a loss, and forking at an earlier epoch."""

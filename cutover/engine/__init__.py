"""What the engines run with: which settings are pinned, and what a running process says of itself."""

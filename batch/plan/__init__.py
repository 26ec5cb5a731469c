"""Plan of a run: the windows to compute, and the offsets to read for them."""

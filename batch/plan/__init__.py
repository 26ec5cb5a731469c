"""Which windows a run computes, and which offsets it has to read for them."""

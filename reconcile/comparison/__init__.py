"""Two sides side by side: their common columns, digests, and the keyed diff."""

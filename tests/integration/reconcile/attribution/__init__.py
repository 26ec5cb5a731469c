"""Which cause each difference gets."""

"""Pure parts of the reconciler."""

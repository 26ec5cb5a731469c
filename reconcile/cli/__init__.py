"""Commands of the reconciler, a module per subject."""

"""The batch path, the reconciler, `cutover diff` and the commands."""

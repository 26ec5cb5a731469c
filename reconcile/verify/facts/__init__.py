"""What the invariants judge: gathered once, from one version of each table and from the log."""

"""The gate: which path people are served from, moved on evidence, and back without a question."""

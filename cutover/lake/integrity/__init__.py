"""Whether what is stored is what was written, by us, from this log."""

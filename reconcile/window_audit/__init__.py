"""Audit in KAPPA: a random sample of final windows, recomputed from the log and compared."""

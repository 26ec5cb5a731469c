"""The audit in KAPPA: a random sample of final windows, computed from the log anew and compared."""

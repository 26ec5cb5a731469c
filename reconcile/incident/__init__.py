"""One incident beside its runbook: what is concerned now, and when something like it was there last."""

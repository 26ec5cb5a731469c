"""One incident with its runbook: what is affected now, and the last similar incident."""

"""Recorded audits of windows and the findings that are still open (`audit_record`), and the sample size (`power`)."""

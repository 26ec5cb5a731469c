"""Drills: cause an alert on an embedded stack, follow its runbook, and record the times of detection and repair."""

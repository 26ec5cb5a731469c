"""Drills: an alert is caused on an embedded stack, its runbook is followed, and the times are written down."""

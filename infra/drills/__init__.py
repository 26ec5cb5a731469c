"""Drills: cause an alert on an embedded stack, follow its runbook, and record the times of detection and repair.

`drill` defines one, `catalogue` lists all (`log_drills` those of input and log), `sequence` runs them on a `stack` that
sends their records, and `perform` executes one.
"""

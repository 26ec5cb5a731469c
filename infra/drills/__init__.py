"""Drills: cause an alert on an embedded stack, follow its runbook, and record the times of detection and repair.

`stack` sends their records and defines what a drill is, `catalogue` lists all (`log_drills` those of input and log),
`sequence` runs them, and `perform` executes one.
"""

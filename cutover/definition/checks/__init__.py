"""Validation of definitions with file, field and hint.

`definition` rejects an invalid definition with the checks of its parts (`joins`, `measures`, `contract`, `change`,
`team_jobs`).
"""

"""The verdict, and the history of verdicts.

`decision` decides after `acceptance`; `records` and `history` order comparisons, `lifecycle` follows unexplained
differences through them, and `audit_record` keeps audits in the same way, with the `statistics` of both. `series` and
`settlement` are what a report shows in addition.
"""

"""The verdict, and the history of verdicts.

`decision` decides after `acceptance`; `records` and `history` order comparisons, `lifecycle` follows unexplained
differences through them, and `audits` are recorded in the same way. `series` and `settlement` are what a report
shows in addition.
"""

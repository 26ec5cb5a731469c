"""The verdict, and the history of verdicts.

`decision` applies the rules of acceptance and decides; `records` and `history` order comparisons and audits,
`lifecycle` follows unexplained differences through them, and `statistics` are of both.
"""

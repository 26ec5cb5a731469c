"""Causes of differences, and their proof by folding the records of the log again.

`attribution` is the sequence: `causes` merges classes of the ledger, `proof` verifies each claim (`claims`,
`log_rows`), `dimension` refolds with other versions (`refold`), and `loss` describes lost records. `cells` lists the
result; `explain` shows one key.
"""

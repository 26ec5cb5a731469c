"""Causes of differences, and their proof by folding the records of the log again.

`attribution` is the sequence: `causes` merges classes of the ledger, `proof` verifies each claim (`log_rows`),
`dimension` refolds with other versions. `cells` lists the result; `explain` shows one key.
"""

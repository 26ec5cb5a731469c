"""Comparison of any two tables, not only those that Cutover wrote.

`tables` is `cutover diff` from its `request`; `cutover/sources` opens the tables. `alignment` brings both to common
columns and types (`column_readings`, `cell_texts`). `open_tables` finds groups that differ by `side_digests`,
which `kept_digests` stores.
"""

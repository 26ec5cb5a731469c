"""Repairs: windows recomputed as a draft, reviewed, then published or discarded; a published one can be undone.

`repair` is the sequence of each step; `checks` rejects what cannot be computed and drafts whose inputs have changed,
`draft` stores the rows outside the tables and compares them with the served ones, `cli` shows and asks.
"""

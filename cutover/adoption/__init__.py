"""Adoption of a team's own jobs: a definition of what they compute, inferred from what they have left behind.

`evidence` decodes the operators of a streaming query, and reads its table and the records that it has read; `proposal`
drafts the definition. `search` tries variants of the draft over the log by `hypotheses`, which compares each with the
table.
"""

"""The outcome of a comparison as one frozen tree.

`report` has all of it: the `finding`, the `seal` and the `overview`; `advice`, `cost`, `rates`, `settlement` and
`timeliness` are parts of it. `codec` converts it to JSON and back; `text`, `tables_text` and `lateness_text` describe
it.
"""

"""The outcome of a comparison as one frozen tree.

`report` has all of it: the `finding`, the `seal`, and the `parts` that it shows in addition, such as `cost` and
`measurements`. `codec` converts it to JSON and back; `text` and `lateness_text` describe it.
"""

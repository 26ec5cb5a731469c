"""The outcome of a comparison as one frozen tree.

`report` has all of it: the `finding` with its seal, and the `parts` and `measurements` that it shows in addition, with
the costs. `codec` converts it to JSON and back; `text` and `lateness_text` describe it.
"""

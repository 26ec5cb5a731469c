"""Draft of a definition by `cutover init`.

`guess` infers it from `columns` and the pace in `parsed_file`, and `template` writes the file with a comment on every
choice.
"""

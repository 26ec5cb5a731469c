"""Two sides as relations, their digests, and the keyed diff.

`side` is one path at a cut, `sides` creates the tables of both (`shared_tables`), and `layout` the columns that are
compared (`column_types`). `digests` finds windows that differ, `diff` their rows; `segments` and `duplicates` describe
these.
"""

"""Replacement of the serving stream by another version or a changed definition.

`replay` fills the other stream from the log and switches to it, `compare` compares both at a cut that `common_cut`
finds, and `swap` serves a changed definition once a person has agreed to that comparison.
"""

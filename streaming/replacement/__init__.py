"""Replacement of the serving stream by another version or a changed definition.

`replay` fills the other stream from the log and switches to it, `compare` compares both at a cut that `common_cut`
finds, `approval` binds a person's agreement to that comparison, and `swap` serves a changed definition.
"""

"""Replacement of the serving stream by another version or a changed definition.

`replay` fills the other stream from the log and switches to it, `compare` compares both at a cut that
they have in common, and `swap` serves a changed definition once a person has agreed to that comparison.
"""

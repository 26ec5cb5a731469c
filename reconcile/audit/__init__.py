"""Audit of determinism: a definition must give the same result for every replay of its log.

`run` replays, `blame` names the expressions that differ, and `noise` measures by how much.
"""

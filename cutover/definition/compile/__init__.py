"""Compilation of definitions.

`compiled` derives types and the SQL texts of each engine, `fingerprint` hashes of what determines each result.
"""

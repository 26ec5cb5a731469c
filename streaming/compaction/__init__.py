"""Compaction: files of old epochs become few.

`compactor` selects the files and commits the result between two epochs; `merge` computes one fold and removes ids that
are no longer needed.
"""

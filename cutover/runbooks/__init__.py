"""Runbooks as data.

`pages` reads and parses them and updates their times, `commands` checks their commands and the output.
"""

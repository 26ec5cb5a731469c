"""Runbooks as data.

`page` parses one, `commands` checks its commands and their output, `folder` reads all and updates their times.
"""

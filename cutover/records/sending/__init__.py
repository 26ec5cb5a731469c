"""Sending of a file to a topic: records are validated, sorted by log time and sent exactly once.

`produce` is the sequence: `rows` converts records, `spool` sorts them, `transmit` checks the topic and delivers
messages, and `produced` notes which files were sent.
"""

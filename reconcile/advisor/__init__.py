"""Advice on out-of-orderness and allowed lateness, from the log and the epochs that read it.

`gather` and `log_lateness` measure delays, and `gather` says which epochs read the records. `predict` evaluates
settings on these delays, `prove` runs the stream with them, and `advice_text` describes the result.
"""

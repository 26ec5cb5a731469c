"""Advice on out-of-orderness and allowed lateness, from the log and the epochs that read it.

`gather` and `log_lateness` measure delays, `epochs_read` says when records were read and appended.
`predict` evaluates settings on these delays, `prove` runs the stream with them, `advice_text` describes the result, and
`record` keeps measurements.
"""

"""Advice on out-of-orderness and allowed lateness, from the log and the epochs that read it."""

"""Conditions for a comparison of two sides; if one does not hold, there is no verdict on the data.

`seal` gathers the facts, `checks` evaluates them; `log_state` is the log, with the losses that are recorded
of it.
"""

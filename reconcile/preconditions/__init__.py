"""Conditions for a comparison of two sides; if one does not hold, there is no verdict on the data.

`seal` gathers the facts, `checks` evaluates them; `log_origin`, `settings_in_force` and `damage` have one subject each.
"""

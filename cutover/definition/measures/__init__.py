"""Measures: their kinds, the state that each keeps, and how states merge."""

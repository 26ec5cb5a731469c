"""Measures: aggregates whose partial states merge to the same result for any split of the records.

`kinds` has most of them and the union of all, `doubles` exact sums of doubles, Variance and Stddev. `states` describes
state columns.
"""

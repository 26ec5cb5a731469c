"""Measures: aggregates whose partial states merge to the same result for any split of the records.

`kinds` has the simple ones and the union of all; `variance`, `ordered` (First, Last, Bag) and `value_counts` (TopK,
Quantile, ApproxDistinct) have the others. `states` describes state columns, `doubles` exact sums of doubles.
"""

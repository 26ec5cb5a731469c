"""Measures: aggregates whose partial states merge to the same result for any split of the records.

`kinds` has the simple ones, First, Last and Bag, and the union of all, `doubles` exact sums of doubles, Variance and
Stddev, `value_counts` TopK, Quantile and ApproxDistinct. `states` describes state columns.
"""

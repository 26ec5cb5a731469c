"""Charts of the report: data to SVG, and the same data as a table for those who read it so.

`chart` has the parts that all share, `curves` the charts of one series each, `one_measure` those of one
measure, and `calendar` the days.
"""

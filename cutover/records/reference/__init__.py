"""Reference runner in plain Python, slow and short, that both paths are tested against.

`run` is the sequence: `parse` a record, place it with `lookups` and `evaluation`, then compute `measures` or those of a
join.
"""

from cutover.records.reference.measures import ApproximateFloat
from cutover.records.reference.run import Result, ResultRow, UncountedPair, compute_reference

__all__ = ["ApproximateFloat", "Result", "ResultRow", "UncountedPair", "compute_reference"]

"""Reference runner in plain Python, slow and short, that both paths are tested against."""

from cutover.records.reference.run import Result, ResultRow, UncountedPair, run
from cutover.records.reference.spread import ApproximateFloat

__all__ = ["ApproximateFloat", "Result", "ResultRow", "UncountedPair", "run"]

"""The third runner: plain Python, slow and short, against which both paths are proven."""

from cutover.records.reference.run import Result, ResultRow, UncountedPair, run
from cutover.records.reference.spread import ApproximateFloat

__all__ = ["ApproximateFloat", "Result", "ResultRow", "UncountedPair", "run"]

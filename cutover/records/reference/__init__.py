"""The third runner: plain Python, slow and short, against which both paths are proven."""

from cutover.records.reference.run import LedgerRow, Result, Row, run
from cutover.records.reference.spread import Near

__all__ = ["LedgerRow", "Near", "Result", "Row", "run"]

"""The third runner: plain Python, slow and short, against which both paths are proven."""

from cutover.records.reference.run import LedgerRow, Result, Row, run

__all__ = ["LedgerRow", "Result", "Row", "run"]

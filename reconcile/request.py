"""Request of a comparison."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cutover.reconcile.attribution import cells
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.verdict.acceptance import NOTHING, Acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """Range, cut and rules of a comparison."""

    start: datetime | None = None  # first window start, inclusive; None: all
    end: datetime | None = None  # exclusive
    epoch: int | None = None  # the batch run at this epoch's cut; None: the newest
    log: LogReader | None = None  # source of the records that cause a difference; None: the cluster of the settings
    acceptance: Acceptance = NOTHING  # rules by which people accept differences, at the time of the run
    parquet: Path | None = None  # where every row that differs is written to
    listed_rows: int = cells.ROWS_AT_MOST  # maximum number of rows in `differences`, unexplained ones first
    compares_jobs: bool = True  # also the tables of the team's own jobs; a self-test plants defects in ours alone
    looks_early: bool = False  # also compare the results shown before windows closed, and those of open windows

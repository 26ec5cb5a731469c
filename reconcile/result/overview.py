"""Parts of an outcome that give the whole at a glance: its days, and the runs before it."""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.reconcile.result.codec import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDay:
    """The windows that start on one day (UTC); of many days those of a month, of many months those of a year."""

    day: str  # 2013-02-08, or 2013-02, or 2013
    windows: int  # compared
    different: int  # of these
    causes: Mapping[str, int]  # cause -> (window, key) rows; a row with two causes counts for both


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfTrend:
    """One comparison of the same definition, as the history has it."""

    run_id: str
    at: str  # ISO
    epoch: int | None  # of its cut; None: it had none
    verdict: str
    within: bool  # the policy
    windows: int  # compared
    different: int  # windows
    rows: int  # (window, key) rows that differ
    unexplained: int  # of these
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBehind:
    """One record of the log that did not count, behind a (window, key) row that the report lists."""

    window_start: str
    key: Mapping[str, Scalar]
    cause: str
    partition: int
    offset: int
    event_time: str | None
    epoch: int  # that read it
    reason: str | None

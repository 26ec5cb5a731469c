"""Parts of an outcome beside its findings: its days, the runs before it, how long differences are known, the noise."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLife:
    """Since when a (window, key) row that nothing explains is known; of the rows that the report lists."""

    window_start: str
    key: Mapping[str, Scalar]
    state: str  # pending, open or accepted
    rule: str | None  # that accepts it
    first_seen: str  # ISO
    first_run: str  # id of the comparison that saw it first
    runs: int  # comparisons that found it, this one too
    returned: int  # how often it came back after it was judged away or closed


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseMeasure:
    """A measure that differs from itself over the same records; of several replays the largest figures."""

    column: str
    paths: tuple[str, ...]  # batch: other tasks are enough; stream: other epochs
    rows: int  # (window, key) rows in one replay
    half: float | None  # of the absolute differences; None: no numbers
    p99: float | None
    largest: float | None
    relative: float | None  # the largest relative difference


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """The newest measurement of noise under the definition."""

    at: str  # ISO
    sentence: str
    rows: int  # (window, key) rows compared
    measures: tuple[NoiseMeasure, ...]  # empty: one answer

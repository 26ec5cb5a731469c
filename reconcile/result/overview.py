"""Parts of a report in addition to its finding: days, earlier runs, lifetimes of differences, noise."""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.reconcile.result.codec import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDay:
    """Windows that start on one day (UTC); if there are many, in one month, or in one year."""

    day: str  # 2013-02-08, or 2013-02, or 2013
    windows: int  # compared
    different: int  # of these
    causes: Mapping[str, int]  # cause -> (window, key) rows; a row with two causes counts for both


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfTrend:
    """Comparison of the same definition in the history."""

    run_id: str
    at: str  # ISO
    epoch: int | None  # of its cut; None without a cut
    verdict: str
    within: bool  # the policy
    windows: int  # compared
    different: int  # windows
    rows: int  # (window, key) rows that differ
    unexplained: int  # of these
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBehind:
    """Record of the log that did not count and contributes to a listed (window, key) row."""

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
    """Lifetime of a listed (window, key) row without a cause."""

    window_start: str
    key: Mapping[str, Scalar]
    state: str  # pending, open or accepted
    rule: str | None  # name of the rule that accepts it
    first_seen: str  # ISO
    first_run: str  # id of the first comparison that found it
    runs: int  # comparisons that found it, including this one
    returned: int  # number of times it reappeared after it was resolved or closed


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseMeasure:
    """Measure whose replays over the same records differ; the largest figures of several replays."""

    column: str
    paths: tuple[str, ...]  # batch: differs with other tasks; stream: differs with other epochs
    rows: int  # (window, key) rows in one replay
    half: float | None  # median of the absolute differences; None if the values are not numbers
    p99: float | None
    largest: float | None
    relative: float | None  # the largest relative difference


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """Latest measurement of noise under the definition."""

    at: str  # ISO
    sentence: str
    rows: int  # (window, key) rows compared
    measures: tuple[NoiseMeasure, ...]  # empty if all replays agree

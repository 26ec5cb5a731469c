"""Measurements of a pipeline: lateness, points of series over windows and epochs, early answers, and error rates.

A record's lateness is the difference between its event time and the one that the slowest partition had reached when the
record was appended; 0 if it was not behind, or if no event time was known yet. The error rates are those found by a
self-test.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.parts import ErrorRates, KindRates, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessQuantiles:
    """Quantiles of the lateness of records, seconds."""

    p50: float
    p90: float
    p99: float
    p999: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessCount:
    """Number of records with a lateness in `[from_seconds, to_seconds)`; None: unbounded."""

    from_seconds: float
    to_seconds: float | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessSegment:
    """Lateness of the records of one partition, or of one value of a column of the key."""

    column: str | None  # of the key; None: a partition
    value: Scalar
    records: int
    lateness: LatenessQuantiles
    histogram: tuple[LatenessCount, ...] = ()  # same bins as for all records; empty in older results
    late: int  # (record, window) pairs that would be late at real speed
    late_as_read: int  # pairs that were late in the epochs that read them


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSource:
    """Segment with nearly all late pairs, but not nearly all pairs: without it hardly any pair would be late."""

    column: str | None  # of the key; None: a partition
    value: Scalar
    late: int  # pairs
    late_share: float  # of all late pairs
    share: float  # of all pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class LateShares:
    """Late (record, window) pairs under the effective settings: at real speed, and in the epochs that read them."""

    pairs: int  # pairs that count, including late ones
    at_real_speed: int  # late if each record had been read when it was appended
    as_read: int  # late by the watermark before the epoch that read them
    pace: float | None  # event time per second of log time; None if no log time passed

    @property
    def real_share(self) -> float:
        """Return the share of late pairs at real speed."""
        return self.at_real_speed / self.pairs if self.pairs else 0.0

    @property
    def read_share(self) -> float:
        """Return the share of late pairs in the epochs that read them."""
        return self.as_read / self.pairs if self.pairs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLateness:
    """Result of one measurement of the lateness of a log."""

    pipeline: str
    at: str  # ISO
    result_fingerprint: str
    lateness_fingerprint: str
    version: int  # n of stream-<n>, whose epochs were analysed
    epoch: int  # the latest of them
    epochs: int
    records: int  # with an event time that is not in the future
    lateness: LatenessQuantiles | None  # None: no record has an event time
    histogram: tuple[LatenessCount, ...]  # the first entry: records that were not behind
    shares: LateShares
    segments: tuple[LatenessSegment, ...]  # all partitions; for each column of the key, the values with most records
    sources: tuple[LateSource, ...]
    notes: tuple[str, ...]  # caveats for the reader of the numbers
    gone: Mapping[str, int]  # partition -> records that the epochs read and the log no longer has


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyError:
    """Errors of one measure against batch over windows of one age, as absolute shares of the windows' totals."""

    measure: str  # or `records`: the number of them
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyPoint:
    """Comparison of the stream's results at one age of windows with batch's final results."""

    minutes: float  # from the window's end to the slowest partition's newest event time
    is_open: bool  # the window could still change
    within: Rate  # windows with every measure within `EarlyAnswers.near` of batch, of those known, 95 % bounds
    errors: tuple[EarlyError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAnswers:
    """Accuracy of the stream's results before they settled, from the epochs' partial aggregates."""

    near: float  # share of a window's total
    windows: int  # the latest compared ones, which were analysed
    one_of: int  # one of this number of keys was sampled, by a hash; 1: all
    points: tuple[EarlyPoint, ...]  # by age, up to the closing, after which no answer changes
    unknown: str | None  # reason why there is no result
    is_replay: bool | None = False  # the epochs read the log faster than it was written; None: unknown
    read_speed: float | None = None  # log time per second of the epochs' processing time; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPoint:
    """Open windows of one age: event time from their start to the one that the slowest partition has reached."""

    from_minutes: float
    to_minutes: float | None  # exclusive; None: unbounded
    windows: int
    same: int  # of these: every row and measure equals batch's at the same cut
    largest: float  # error of any measure of any of them


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAnswers:
    """Comparison of the stream's results of open windows with a fold of the log's records up to the same cut."""

    near: float
    windows: int  # open at the cut, if the stream shows them
    looked: int  # of these: the latest ones, which were folded again
    shown: str  # `panes`: the latest of each row; `aggregates`: the accepted records so far
    same: int  # windows in which nothing differs
    within: Rate  # windows with every measure within `near`, with 95 % bounds
    errors: tuple[EarlyError, ...]
    points: tuple[OpenPoint, ...]
    unknown: str | None  # reason why there is no result


RIGHT_CAUSE = 0.99
CLEAN_WINDOWS = 1_000

RULES = 2
"""By which rows are counted. A self-test that was counted by other rules says nothing under these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """The reconciler's own error rates on one pipeline."""

    pipeline: str
    at: str  # ISO
    seed: int
    trials: int
    result_fingerprint: str
    epoch: int  # of the cut
    detection_rate: Rate  # of what was planted
    false_alarm_rate: Rate  # of windows in which nothing was planted
    right_cause_rate: Rate  # of rows found individually, and of earlier differences that were left unchanged
    by_kind: Mapping[str, KindRates]
    refused: int  # rows found by a refusal to compare that names their plant, not in `right_cause_rate`
    not_compared: int  # rows that plants changed besides, of which no comparison says anything; in no rate
    drawn_in: int  # rows that differed before and are judged together with a planted one; in no rate
    failures: tuple[str, ...]  # some of what went wrong, one sentence each
    seconds: float
    rules: int = RULES

    @property
    def passed(self) -> bool:
        """All was found, nothing else, on enough windows, and nearly all by its name."""
        return (
            self.detection_rate.of > 0
            and self.detection_rate.hits == self.detection_rate.of
            and self.false_alarm_rate.hits == 0
            and self.false_alarm_rate.of >= CLEAN_WINDOWS
            and self.right_cause_rate.of > 0
            and self.right_cause_rate.hits >= RIGHT_CAUSE * self.right_cause_rate.of
        )

    @property
    def rates(self) -> ErrorRates:
        """Return what a report shows of it."""
        return ErrorRates(
            at=self.at,
            seed=self.seed,
            passed=self.passed,
            detection_rate=self.detection_rate,
            false_alarm_rate=self.false_alarm_rate,
            right_cause_rate=self.right_cause_rate,
            by_kind=self.by_kind,
            refused=self.refused,
            not_compared=self.not_compared,
            drawn_in=self.drawn_in,
        )


EDGES = (0, 1, 2, 5, 15, 30, 60, 120, 240, 480, 1440, 2880, 10_080)
"""Minutes."""

_MINUTE = 60_000_000


def gather_points(windows: Iterable[tuple[int, bool, float]]) -> tuple[OpenPoint, ...]:
    """Build a point for each range of ages that contains a window.

    Args:
        windows: Age (microseconds; below 0: time has not reached its start), whether all rows agree, largest error.
    """
    rows = list(windows)
    points = []
    for low, high in ((None, 0), *pairwise(EDGES), (EDGES[-1], None)):
        group = [row for row in rows if _is_between(row[0] / _MINUTE, low, high)]
        if group:
            point = OpenPoint(
                from_minutes=float(0 if low is None else low),
                to_minutes=None if high is None else float(high),
                windows=len(group),
                same=sum(is_same for _, is_same, _ in group),
                largest=max(largest for *_, largest in group),
            )
            points.append(point)
    return tuple(points)


def _is_between(minutes: float, low: int | None, high: int | None) -> bool:
    return (low is None or minutes >= low) and (high is None or minutes < high)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPoint:
    """Point of a chart for one or several consecutive windows: the first additive measure, and rows that differ."""

    window_start: str
    streaming: Scalar
    batch: Scalar
    different_rows: int
    state: str = "compared"  # compared, open or incomplete
    windows: int = 1  # number of consecutive windows in the point


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessBin:
    """Number of late records, by the event time between the closing of their window and their arrival."""

    from_minutes: float
    to_minutes: float
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPoint:
    """Point of a chart for one epoch of the stream."""

    epoch: int
    watermark: str | None  # ISO, after the epoch
    newest_event: str | None  # ISO, latest event time so far in any partition
    lag: float | None  # seconds from the watermark to the newest event time
    records: int
    seconds: float

"""Lateness of a log's records, and accuracy of early answers, for `cutover lateness` and the report.

A record's lateness is the difference between its event time and the one that the slowest partition had reached when the
record was appended; 0 if it was not behind, or if no event time was known yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.parts import Rate


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

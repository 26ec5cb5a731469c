"""How late the records of a log were, and how right early answers: what `cutover lateness` and the report show.

A record's lateness is how far its event time was behind the one that the slowest partition had reached when the record
was appended; 0 where it was not behind, or where nothing was reached yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.lake.epochs.read_speed import LOAD
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.rates import Rate


def tells_real_speed(pace: float | None) -> bool:
    """Return whether log timestamps tell when records came about, and not when they were loaded.

    Args:
        pace: Event time that went by for each second of log time; None: not known.
    """
    return pace is not None and pace <= LOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessQuantiles:
    """Seconds: the smallest lateness that so large a share of the records does not exceed."""

    p50: float
    p90: float
    p99: float
    p999: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessCount:
    """Records with a lateness in `[from_seconds, to_seconds)`; None: without end."""

    from_seconds: float
    to_seconds: float | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessSegment:
    """The records of one partition, or of one value of a column of the key."""

    column: str | None  # of the key; None: a partition
    value: Scalar
    records: int
    lateness: LatenessQuantiles
    histogram: tuple[LatenessCount, ...] = ()  # as that of all records; none in what was kept before there was one
    late: int  # (record, window) pairs that would be late at real speed
    late_as_read: int  # pairs that were late in the epochs that read them


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSource:
    """A segment that has nearly all late pairs, and not nearly all pairs: without it hardly any would be late."""

    column: str | None  # of the key; None: a partition
    value: Scalar
    late: int  # pairs
    late_share: float  # of all late pairs
    share: float  # of all pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class LateShares:
    """Late (record, window) pairs under the settings in force: read as it was appended, and as it was read."""

    pairs: int  # that count, late ones included
    at_real_speed: int  # late if each record had been read when it was appended
    as_read: int  # late by the watermark before the epoch that read them
    pace: float | None  # event time that went by for each second of log time; None: no log time went by

    @property
    def real_share(self) -> float:
        """Of all pairs, at real speed."""
        return self.at_real_speed / self.pairs if self.pairs else 0.0

    @property
    def read_share(self) -> float:
        """Of all pairs, as they were read."""
        return self.as_read / self.pairs if self.pairs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLateness:
    """One look at the lateness of a log."""

    pipeline: str
    at: str  # ISO
    result_fingerprint: str
    lateness_fingerprint: str
    version: int  # n of stream-<n>, whose epochs were looked at
    epoch: int  # the newest of them
    epochs: int
    records: int  # with an event time, and not dated ahead
    lateness: LatenessQuantiles | None  # None: no record has an event time
    histogram: tuple[LatenessCount, ...]  # the first entry: records that were not behind
    shares: LateShares
    segments: tuple[LatenessSegment, ...]  # all partitions; of each column of the key the values with most records
    sources: tuple[LateSource, ...]
    notes: tuple[str, ...]  # what a reader of the numbers should know
    gone: Mapping[str, int]  # partition -> records that the epochs read and the log no longer holds


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyError:
    """How far one measure was from batch, over windows of one age: shares of the windows' totals without signs."""

    measure: str  # or `records`: the number of them
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyPoint:
    """What the stream showed of windows of one age, beside what batch made of them in the end."""

    minutes: float  # from the window's end to the slowest partition's newest event time
    is_open: bool  # the window could still change
    within: Rate  # windows of which every measure was within `EarlyAnswers.near` of batch, of those known, 95 % bounds
    errors: tuple[EarlyError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAnswers:
    """How right the answers of the stream were before they settled, from the epochs' own partial aggregates."""

    near: float  # share of a window's total
    windows: int  # the newest compared ones, which were looked at
    one_of: int  # of so many keys one was looked at, by a hash; 1: all
    points: tuple[EarlyPoint, ...]  # by age; up to the closing, behind which no answer changes
    unknown: str | None  # why nothing is known
    is_replay: bool = False  # the epochs read the log faster than it came about
    read_speed: float | None = None  # log time that went by for each second while the epochs ran; None: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPoint:
    """Open windows of one age: event time that the slowest partition has reached beyond their start."""

    from_minutes: float
    to_minutes: float | None  # exclusive; None: without end
    windows: int
    same: int  # of these: every row and measure is that of batch over the same cut
    largest: float  # error of any measure of any of them


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAnswers:
    """What the stream shows of windows that are open at the cut, beside a fold of the log's records up to this cut."""

    near: float
    windows: int  # open at the cut, of those that the stream shows
    looked: int  # of these: folded anew, the newest ones
    shown: str  # `panes`: the newest of each row; `aggregates`: what was accepted so far
    same: int  # windows in which nothing differs
    within: Rate  # windows of which every measure is within `near`, with 95 % bounds
    errors: tuple[EarlyError, ...]
    points: tuple[OpenPoint, ...]
    unknown: str | None  # why nothing is known

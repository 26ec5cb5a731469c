"""Settlement of windows as frozen values: how complete the log is, and how right the stream's answer is, by age.

A window's age is how far the slowest partition's newest event time is beyond its end. Late records are dropped: they
make the log complete, and never the stream's answer, which is final when its window closes.
"""

from dataclasses import dataclass

from cutover.reconcile.result.rates import Rate

FEW = 10
"""Windows below which nothing is concluded from their share."""

NEARLY_ALL = 0.99
"""Share of windows that must be right for a conclusion about windows of an age."""

MISSING_AT_MOST = 1e-3
"""Share of its records that a window may miss and still count as complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementPoint:
    """Windows that have reached one age: the share of their records that they miss at it."""

    minutes: float  # from the window's end to the slowest partition's newest event time
    within: Rate  # windows that miss at most one record in a thousand, of those that old, with 95 % bounds
    p50: float  # share of a window's records that is missing
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementPoint:
    """(window, key) rows of the stream's answer at one age of their window, beside batch's final rows."""

    minutes: float
    windows: int  # whose answer at that age is known
    rows: int  # of these windows
    different: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Two curves by age, as of the records read up to the cut."""

    closing_minutes: float  # age at which windows close: the stream's answer is final from then on
    windows: int  # compared
    other_causes: int  # windows that differ for another cause than late records: wrong at every age
    log: tuple[SettlementPoint, ...]  # records that had been read, late ones included; empty: no window is that old
    stream: tuple[SettlementPoint, ...]  # records that count in the stream's answer; the last point is the closing
    agreement: tuple[AgreementPoint, ...]  # as `stream`, in rows
    is_replay: bool = False  # the epochs read the log faster than it came about
    read_speed: float | None = None  # log time that went by for each second while the epochs ran; None: not known

    @property
    def final(self) -> SettlementPoint:
        """Return the stream's point at closing, which holds at every later age."""
        return self.stream[-1]

    @property
    def trusted(self) -> SettlementPoint | None:
        """Return the first age from which on nearly all of the stream's answers are right; None: at no age.

        Of a replay, whose epochs read hours at once, no age before closing is concluded.
        """
        return find_first_settled(self.stream[-1:] if self.is_replay else self.stream)

    @property
    def complete(self) -> SettlementPoint | None:
        """Return the first age from which on nearly all windows have their records in the log; None: at no age."""
        return find_first_settled(self.log)


def find_first_settled(points: tuple[SettlementPoint, ...]) -> SettlementPoint | None:
    """Return the first point from which on nearly all windows are within; points of few windows decide nothing."""
    first = None
    for point in reversed([point for point in points if point.within.of >= FEW]):
        if point.within.hits < NEARLY_ALL * point.within.of:
            break
        first = point
    return first

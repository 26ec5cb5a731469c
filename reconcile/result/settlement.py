"""Settlement of windows as frozen values: completeness of the log and accuracy of the stream's answer, by age.

A window's age is the event time from its end to the latest one of the slowest partition. Late records are dropped: they
complete the log, but never the stream's answer, which is final when its window closes.
"""

from dataclasses import dataclass

from cutover.reconcile.result.rates import Rate

FEW = 10
"""Minimum number of windows for a conclusion from their share."""

NEARLY_ALL = 0.99
"""Share of windows that must be right for a conclusion about windows of an age."""

MISSING_AT_MOST = 1e-3
"""Share of its records that a window may miss and still count as complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementPoint:
    """Shares of records that windows miss at one age."""

    minutes: float  # from the window's end to the slowest partition's newest event time
    within: Rate  # windows that miss at most one record in a thousand, of those that old, with 95 % bounds
    p50: float  # share of a window's records that is missing
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementPoint:
    """Number of (window, key) rows in which the stream's answer at one age differs from batch's final rows."""

    minutes: float
    windows: int  # whose answer at that age is known
    rows: int  # of these windows
    different: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Curves by age, from the records read up to the cut."""

    closing_minutes: float  # age at which windows close: the stream's answer is final from then on
    windows: int  # compared
    other_causes: int  # windows that differ for a cause other than late records: wrong at every age
    log: tuple[
        SettlementPoint, ...
    ]  # records that had been read, including late ones; empty if no window is old enough
    stream: tuple[SettlementPoint, ...]  # records that count in the stream's answer; the last point is the closing
    agreement: tuple[AgreementPoint, ...]  # as `stream`, in rows
    is_replay: bool | None = False  # the epochs read the log faster than it was written; None: unknown
    read_speed: float | None = None  # log time per second of the epochs' processing time; None if unknown

    @property
    def final(self) -> SettlementPoint:
        """Return the stream's point at closing, which holds at every later age."""
        return self.stream[-1]

    @property
    def trusted(self) -> SettlementPoint | None:
        """Find the first age from which on nearly all of the stream's answers are right.

        For a replay, whose epochs read hours at once, no age before closing is concluded; none at all if it is unknown
        whether the log was replayed.
        """
        if self.is_replay is None:
            return None
        return find_first_settled(self.stream[-1:] if self.is_replay else self.stream)

    @property
    def complete(self) -> SettlementPoint | None:
        """Find the first age from which on nearly all windows have their records in the log, as for `trusted`."""
        return None if self.is_replay is None else find_first_settled(self.log)


def find_first_settled(points: tuple[SettlementPoint, ...]) -> SettlementPoint | None:
    """Find the first point from which on nearly all windows are within; points with few windows are ignored."""
    first_settled = None
    for point in reversed([point for point in points if point.within.of >= FEW]):
        if point.within.hits < NEARLY_ALL * point.within.of:
            break
        first_settled = point
    return first_settled

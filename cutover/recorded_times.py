"""Reconciliation of recorded wall-clock times with the sequence of their records. Pure.

Records are ordered by sequence; times are only used for ages. The clocks of hosts differ by hours, step back, or run
years ahead, so a time is trusted only if it is consistent with the sequence. How uncertainty is handled is decided
where the age is used (docs/adr/0041-order-is-by-sequence.md).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_UNKNOWN, FOREVER = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=365_000)
"""Earliest time and uncertainty of a record of unknown age."""

CLOCKS_APART = timedelta(hours=1)
"""Tolerated difference between the clocks of two hosts: a time that is at most this far ahead means now."""


def make_monotonic(times: Sequence[datetime]) -> list[datetime]:
    """Return one time per record such that the times never decrease.

    The largest set of records with nondecreasing times is trusted; among sets of this size the one with the shortest
    time span, then the one that is complete first. Every other record gets the time of the previous trusted record;
    records before the first trusted one get its time.

    Args:
        times: Recorded times, ordered by sequence.
    """
    ends: list[datetime] = []  # length - 1 -> the smallest end time of a nondecreasing chain of this length
    levels: list[list[_Chain]] = []  # length - 1 -> the longest chains that end with each record
    for number, at in enumerate(times):
        level = bisect_right(ends, at)
        if level == len(ends):
            ends.append(at)
            levels.append([])
        ends[level] = at
        predecessors = [chain for chain in levels[level - 1] if chain.at <= at] if level else []
        shortest = max(predecessors, key=lambda chain: chain.start, default=None)
        levels[level].append(_Chain(number=number, at=at, start=shortest.start if shortest else at, previous=shortest))
    trusted = set[int]()
    chain = min(levels[-1], key=lambda chain: chain.at - chain.start) if levels else None
    settled: list[datetime] = []
    while chain is not None:
        trusted.add(chain.number)
        settled, chain = [chain.at], chain.previous
    for number, at in enumerate(times):
        settled.append(at if number in trusted else settled[-1])
    return settled[1:]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Records with nondecreasing times, linked from the last one."""

    number: int
    at: datetime
    start: datetime  # time of the first record
    previous: "_Chain | None"


def find_latest_times(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Return the latest time at which each record can have been created, for retention that must not delete too early.

    Args:
        times: Recorded times, ordered by sequence.
        now: Current time of the caller. A record with a later time was created before now and before the next record.
    """
    bounds: list[datetime] = []  # from the next record that is not in the future
    upper_bound = now
    for at in reversed(times):
        upper_bound = at if at <= now else upper_bound
        bounds.append(upper_bound)
    latest: list[datetime] = []
    for at, following in zip(times, reversed(bounds), strict=True):
        latest_time = at if at <= now else following
        latest.append(max(latest_time, latest[-1]) if latest else latest_time)
    return latest


def find_earliest_times(
    recorded_times: Sequence[datetime | None], now: datetime, inputs: Sequence[Iterable[datetime]] | None = None
) -> list[datetime | None]:
    """Return the earliest time at which each record can have been created, for evidence that must not appear newer.

    A recorded time is used unless it is ahead of `now`, or before the inputs of its record. No record was created after
    those that follow it, or before those that precede it.

    Args:
        recorded_times: Recorded times, ordered by sequence; None if no time was recorded.
        now: Current time of this host.
        inputs: For each record, the times, by other clocks, of events that must precede it. If they differ from the
            recorded time by more than `CLOCKS_APART`, it is undecidable which clock is wrong.

    Returns:
        Earliest times; None if nothing limits the age of a record.
    """
    limit = now + CLOCKS_APART
    believed_times = [None if at is None or at > limit else min(at, now) for at in recorded_times]
    input_times = [[min(at, now) for at in times if at <= limit] for times in inputs or [()] * len(believed_times)]
    bounds: list[datetime] = []
    upper_bound = now
    for at, inputs_of_record in zip(reversed(believed_times), reversed(input_times), strict=True):
        if at is not None and all(time - at <= CLOCKS_APART for time in inputs_of_record):
            upper_bound = min(upper_bound, at)
        bounds.append(upper_bound)
    earliest: list[datetime | None] = []
    for at, inputs_of_record, latest in zip(believed_times, input_times, reversed(bounds), strict=True):
        reach = latest if at is None else min(at, latest) + CLOCKS_APART
        candidates = [time for time in inputs_of_record if time <= reach]
        candidates += [] if at is None else [min(at, latest)]
        candidates += [time for time in earliest[-1:] if time is not None]
        earliest.append(max(candidates, default=None))
    return earliest


def estimate_now(now: datetime, witness_times: Iterable[datetime]) -> datetime:
    """Estimate the current time if the own clock may be behind: at least the earliest of all witness times.

    Args:
        now: Current time of the caller.
        witness_times: Times of the latest records of several histories, including the epochs of the stream; fewer than
            two prove nothing.
    """
    witnesses = list(witness_times)
    return max(now, min(witnesses)) if len(witnesses) > 1 else now


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAge:
    """Bounds of the age of a record."""

    not_before: datetime  # it was created then or later
    uncertainty: timedelta = timedelta(0)  # how much later than `not_before` it may have been created


def bound_age(
    recorded_at: datetime, input_times: Iterable[datetime], now: datetime, *, lag: timedelta = timedelta(0)
) -> RecordAge:
    """Bound the age of a record.

    Args:
        recorded_at: Recorded time. A time that is ahead of `now` by at most `CLOCKS_APART` means now.
        input_times: Times, by other clocks, of events that must precede the record.
        now: Current time of the caller.
        lag: How far the clock that recorded it is behind others, as `measure_lag` returns it.
    """
    earliest = max((at for at in input_times if at <= now), default=None)
    if recorded_at > now + CLOCKS_APART:
        return RecordAge(not_before=earliest or _UNKNOWN, uncertainty=FOREVER)
    recorded_at = min(recorded_at, now)
    if earliest is None or earliest <= recorded_at:
        return RecordAge(not_before=recorded_at, uncertainty=lag)
    return RecordAge(not_before=earliest, uncertainty=earliest - recorded_at)


def measure_lag(
    recorded_times: Sequence[datetime], inputs: Sequence[Iterable[datetime]], *, tolerated: timedelta
) -> timedelta:
    """Measure how far the clock of some records was behind those of their inputs, at most `CLOCKS_APART`.

    With little activity the latest record may have no recent input that reveals a lag, so all records are used.

    Args:
        recorded_times: Times of records, in any order.
        inputs: For each record, the times, by other clocks, of events that must precede it.
        tolerated: A smaller lag is ignored.
    """
    lags = (time - at for at, times in zip(recorded_times, inputs, strict=True) for time in times)
    lag = max(lags, default=timedelta(0))
    return min(lag, CLOCKS_APART) if lag > tolerated else timedelta(0)

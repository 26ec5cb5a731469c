"""Times that hosts recorded by clocks of their own, held against the order in which records were made. Pure.

Order is by sequence, and a time only tells an age. Clocks differ by hours, step back, or run years ahead, so a time is
believed as far as the order of the records bears it out; which way a doubt goes is decided where the age is used
(docs/adr/0041-order-is-by-sequence.md).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_UNKNOWN, FOREVER = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=365_000)
"""Since when a record may be there, and by how much it may be younger, of which nothing is known."""

CLOCKS_APART = timedelta(hours=1)
"""Largest difference between the clocks of two hosts that is tolerated: a time no further ahead than this means now."""


def make_monotonic(times: Sequence[datetime]) -> list[datetime]:
    """Return times that never go back, one for each record.

    The largest set of records whose times agree with their order is believed; of several as large the one that spans
    the shortest time, then the one that was complete first. Every other record takes the time of the believed one
    before it, those before the first one its time.

    Args:
        times: In the order of their sequence.
    """
    ends: list[datetime] = []  # by length: the smallest last time of a set that agrees
    levels: list[list[_Chain]] = []  # by length: the sets that agree, and that no record makes larger by its end
    for number, at in enumerate(times):
        place = bisect_right(ends, at)
        if place == len(ends):
            ends.append(at)
            levels.append([])
        ends[place] = at
        fits = [chain for chain in levels[place - 1] if chain.at <= at] if place else []
        longest = max(fits, key=lambda chain: chain.start, default=None)
        levels[place].append(_Chain(number=number, at=at, start=longest.start if longest else at, previous=longest))
    believed = set[int]()
    chain = min(levels[-1], key=lambda chain: chain.at - chain.start) if levels else None
    settled: list[datetime] = []
    while chain is not None:
        believed.add(chain.number)
        settled, chain = [chain.at], chain.previous
    for number, at in enumerate(times):
        settled.append(at if number in believed else settled[-1])
    return settled[1:]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Records whose times agree with their order, by the last of them."""

    number: int
    at: datetime
    start: datetime  # time of the first of them
    previous: "_Chain | None"


def find_latest_times(times: Sequence[datetime], now: datetime) -> list[datetime]:
    """Return the latest time at which each record can have been made: for what is kept where its age is in doubt.

    Args:
        times: In the order of their sequence.
        now: By the clock of who asks. A time beyond it says nothing of its record but that it was made by now, and
            before the next one.
    """
    bounds: list[datetime] = []  # by the next record that is not of the future
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
    recorded: Sequence[datetime | None], now: datetime, inputs: Sequence[Iterable[datetime]] | None = None
) -> list[datetime | None]:
    """Return the earliest time at which each record can have been made: for evidence that must not pass for newer.

    A recorded time counts unless it is ahead of `now`, or behind the inputs of its record. No record was made after
    those that follow it, or before those that precede it.

    Args:
        recorded: In the order of their sequence; None where no time was recorded.
        now: By the clock of this host.
        inputs: For each record, the times, by other clocks, of what must have happened before it was made. Where they
            differ from the recorded time by more than `CLOCKS_APART`, no one can tell which clock is wrong.

    Returns:
        None where nothing limits the age of a record.
    """
    limit = now + CLOCKS_APART
    believed_times = [None if at is None or at > limit else min(at, now) for at in recorded]
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
    """Return the time that it is by a clock that may be behind: a later one counts once every witness is beyond it.

    Args:
        now: By the clock of who asks.
        witness_times: Times of the newest records of several histories, that of the stream's epochs among them;
            fewer than two prove nothing.
    """
    witnesses = list(witness_times)
    return max(now, min(witnesses)) if len(witnesses) > 1 else now


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAge:
    """The age of a record, as far as it is known."""

    not_before: datetime  # it was made then or later
    uncertainty: timedelta = timedelta(0)  # by how much it may be younger than since `since`


def bound_age(
    recorded_at: datetime, input_times: Iterable[datetime], now: datetime, *, lag: timedelta = timedelta(0)
) -> RecordAge:
    """Return how old a record is.

    Args:
        recorded_at: Its time. One that is ahead of `now` by no more than `CLOCKS_APART` means now.
        input_times: Times, by other clocks, of what must have happened before it was made.
        now: By the clock of who asks.
        lag: By how much the clock that recorded it is behind others, as `measure_lag` returns it.
    """
    earliest = max((at for at in input_times if at <= now), default=None)
    if recorded_at > now + CLOCKS_APART:
        return RecordAge(not_before=earliest or _UNKNOWN, uncertainty=FOREVER)
    recorded_at = min(recorded_at, now)
    if earliest is None or earliest <= recorded_at:
        return RecordAge(not_before=recorded_at, uncertainty=lag)
    return RecordAge(not_before=earliest, uncertainty=earliest - recorded_at)


def measure_lag(
    recorded: Sequence[datetime], inputs: Sequence[Iterable[datetime]], *, tolerated: timedelta
) -> timedelta:
    """Return by how much the clock of some records has been behind those of their inputs, at most `CLOCKS_APART`.

    Where little happens, the latest record may have no recent input that shows it, and earlier records do.

    Args:
        recorded: Times of records, in any order.
        inputs: For each record, the times, by other clocks, of what must have happened before it was made.
        tolerated: A smaller lag does not count.
    """
    lags = (time - at for at, times in zip(recorded, inputs, strict=True) for time in times)
    lag = max(lags, default=timedelta(0))
    return min(lag, CLOCKS_APART) if lag > tolerated else timedelta(0)

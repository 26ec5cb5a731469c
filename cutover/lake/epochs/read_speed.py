"""Speed at which epochs read a log: whether their records were replayed, or read as they were produced.

Records were replayed if the driver was far behind the end of the log when it read them: farther than a minute and than
twice the usual pause between two epochs. How far, follows from the epochs alone: an epoch that leaves records unread is
behind the next one that leaves none, by the log time or event time between the two that did not elapse meanwhile. An
epoch before which none were left unread is not behind, except after a pause that is as long as its records span (the
driver hung), and if time advances in all such epochs faster than the clock (a source that sends old records faster). A
driver's first epoch reads what was appended while no driver ran.

Epochs do not record where the event time of their records begins. Hence log timestamps of a driver's first epoch cannot
be recognized as those of a bulk load, and its records are taken to be produced at the pace of later ones. If the answer
depends on that, it is unknown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from operator import attrgetter

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""Time advances faster than the clock, or a pause is longer than usual, by this factor."""

MINUTE = 60_000_000
"""Least distance from the end of the log at which records are replayed, microseconds."""

USUAL = 0.9
"""Share of the pauses before an epoch that are at most as long as usual: a source that appends in bursts has others."""

FEW = 0.05
"""A log of which more than this share of the records was replayed is a replay."""

LOAD = 2.0
"""Log timestamps are those of a bulk load if event time advanced faster than log time by this factor."""

SPARSER = 10
"""Records of a first epoch are at most this much rarer than later ones; an older log timestamp is a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpeed:
    """Whether and how fast a log was replayed."""

    is_replay: bool | None  # more than a few records were replayed; None: unknown
    speed: float | None  # seconds of log time per second at which records were read; None: unknown, or that of a load
    pace: float | None  # event time per log time after the first epoch of each driver; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What an epoch read; times in microseconds."""

    is_first: bool  # of its driver
    is_caught_up: bool  # the epoch before left no record unread
    leaves_unread: bool
    records: int
    start: int
    elapsed: int  # since the start of the epoch before; of a first epoch, its duration
    event_time: int  # newest so far
    log_time: int  # newest of its last records
    newest_log_time: int  # so far
    event_advance: int  # since the epoch before; 0 for a first epoch
    log_advance: int  # since the epoch before; of a first epoch, from the oldest log timestamp
    span: int  # log time of its records that no epoch before had reached


def tells_real_speed(pace: float | None) -> bool:
    """Return whether log timestamps are the times at which records were produced, not those of a bulk load.

    Args:
        pace: Event time per log time; None if unknown.
    """
    return pace is not None and pace <= LOAD


def measure_read_speed(records: Sequence[EpochRecord]) -> ReadSpeed:
    """Return whether epochs replayed the topic of the newest one, how fast, and the pace of event time in it.

    Nothing is known if no epoch read any record, or if a clock was set back.
    """
    steps = _limit_wrong_clocks(_list_steps(records))
    if not steps or _is_clock_set_back(steps):
        return ReadSpeed(is_replay=None, speed=None, pace=None)
    later = [step for step in steps if not step.is_first]
    event_time, log_time = _sum(later, "event_advance"), _sum(later, "log_advance")
    pace = event_time / log_time if log_time > 0 else None
    far = _find_far(later)
    replayed = _list_replayed(steps, far)
    event_time_per_record = event_time / _sum(later, "records") if later else inf
    unknown = [
        step for step in steps if step.is_first and step not in replayed and event_time_per_record * step.records > far
    ]
    few, replayed_records = FEW * _sum(steps, "records"), _sum(replayed, "records")
    is_replay = replayed_records > few
    is_known = is_replay or replayed_records + _sum(unknown, "records") <= few
    return ReadSpeed(
        is_replay=is_replay if is_known else None,
        speed=_divide_times(replayed if is_replay else steps) if is_known and tells_real_speed(pace) else None,
        pace=pace,
    )


def _find_far(later: Iterable[_Step]) -> float:
    """Return the distance from the end of the log beyond which records are replayed, microseconds."""
    pauses = sorted(step.elapsed for step in later if step.is_caught_up)
    return max(MINUTE, REPLAY * pauses[int(USUAL * len(pauses))]) if pauses else MINUTE


def _list_replayed(steps: Sequence[_Step], far: float) -> list[_Step]:
    caught_up = [step for step in steps if step.is_caught_up and not step.is_first]
    is_faster = _is_faster(caught_up, "event_advance") or _is_faster(caught_up, "log_advance")
    distances = _measure_distances(steps)
    replayed = []
    for place, step in enumerate(steps):
        if step.is_first:
            is_far = step.span > far or distances[place] > far
        elif step.is_caught_up:
            is_far = is_faster or (step.elapsed > far and step.span > far) or distances[place] > far
        else:
            is_far = max(distances[place - 1 : place + 1]) > far
        if is_far:
            replayed.append(step)
    return replayed


def _is_faster(caught_up: Sequence[_Step], name: str) -> bool:
    """Return whether time advanced faster than the clock, without the longest advance: it may be a wrong clock."""
    advances = [getattr(step, name) for step in caught_up]
    return bool(advances) and sum(advances) - max(advances) > REPLAY * _sum(caught_up, "elapsed")


def _measure_distances(steps: Sequence[_Step]) -> list[int]:
    """Return how far each step was behind the next one that left no record unread (else the last), microseconds."""
    distances, end = list[int](), steps[-1]
    for step in reversed(steps):
        if not step.leaves_unread:
            end = step
        advance = max(end.event_time - step.event_time, end.log_time - step.log_time)
        distances.append(advance - (end.start - step.start))
    return distances[::-1]


def _is_clock_set_back(steps: Sequence[_Step]) -> bool:
    elapsed = [sum(step.elapsed for step in driver) for driver in _split_drivers(steps)]
    return sum(elapsed) <= 0 or min(elapsed) < 0


def _split_drivers(steps: Sequence[_Step]) -> Iterator[list[_Step]]:
    driver = list[_Step]()
    for step in steps:
        if step.is_first and driver:
            yield driver
            driver = []
        driver.append(step)
    yield driver


def _sum(steps: Iterable[_Step], name: str) -> int:
    return sum(getattr(step, name) for step in steps)


def _divide_times(steps: Sequence[_Step]) -> float | None:
    elapsed = _sum(steps, "elapsed")
    return _sum(steps, "log_advance") / elapsed if elapsed > 0 else None


def _list_steps(records: Sequence[EpochRecord]) -> list[_Step]:
    busy = [record for record in records if record.records and record.max_event and record.processing_time]
    of_topic = (record for record in busy if record.topic_id == busy[-1].topic_id)
    steps = list[_Step]()
    for _, driver in groupby(of_topic, attrgetter("run_id")):
        for place, record in enumerate(driver):
            steps.append(_make_step(record, steps[-1] if steps else None, is_first=not place))
    return steps


def _make_step(record: EpochRecord, previous: _Step | None, *, is_first: bool) -> _Step:
    start = parse_micros(record.processing_time) - round(record.seconds * 1e6)
    newest = max((mark.log_time for marks in record.marks.values() for mark in marks), default=0) * 1_000
    event_time, newest_before = max(record.max_event.values()), 0 if previous is None else previous.newest_log_time
    # Log timestamps that go back are those of producers: the records were appended after the epoch before.
    oldest = max(newest if record.oldest_log_time is None else record.oldest_log_time, newest_before)
    span = max(0, newest - oldest)
    if previous is None or is_first:
        elapsed, event_advance, log_advance = round(record.seconds * 1e6), 0, span
    else:
        elapsed, event_advance = start - previous.start, max(0, event_time - previous.event_time)
        log_advance = max(0, newest - newest_before) if newest_before > 0 else 0
    return _Step(
        is_first=is_first,
        is_caught_up=previous is not None and not previous.leaves_unread,
        leaves_unread=record.lag > 0,
        records=record.records,
        start=start,
        elapsed=elapsed,
        event_time=event_time,
        log_time=newest,
        newest_log_time=max(newest, newest_before),
        event_advance=event_advance,
        log_advance=log_advance,
        span=span,
    )


def _limit_wrong_clocks(steps: list[_Step]) -> list[_Step]:
    """Limit the log time of first epochs by that of later ones."""
    later = [step for step in steps if not step.is_first]
    log_time = _sum(later, "log_advance")
    if log_time <= 0:
        return steps
    per_record = SPARSER * log_time / _sum(later, "records")

    def limit(step: _Step) -> _Step:
        longest = round(per_record * step.records)
        return replace(step, log_advance=min(step.log_advance, longest), span=min(step.span, longest))

    return [limit(step) if step.is_first else step for step in steps]

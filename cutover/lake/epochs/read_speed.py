"""Speed at which epochs read a log, compared with the pace at which its records were produced.

The records of an epoch were replayed if their time, in the log or of their events, advanced much faster than the clock.
A source that appends its records in bursts is no replay, since the clock advanced before each burst. Hence the
comparison is between epochs at which the driver was closer to the end of the log than at any epoch before. The first
epoch of a driver counts with its own duration: a day that one epoch reads in seconds was replayed, even if such an
epoch runs once a day.

Epochs do not record where the event time of their records begins. Hence log timestamps of a driver's first epoch cannot
be recognized as those of a bulk load, and its records are taken to be produced at the pace of later ones. If the answer
depends on that, it is unknown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import inf
from operator import attrgetter

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""Records were replayed if their event time or log time advanced faster than processing time by this factor."""

FEW = 0.05
"""A log of which more than this share of the records was replayed is a replay."""

LOAD = 2.0
"""Log timestamps are those of a bulk load if event time advanced faster than log time by this factor."""

SPARSER = 10
"""Records of a first epoch are at most this much rarer than later ones; an older log timestamp is a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpeed:
    """Speed of reading, over the time for which drivers ran."""

    is_replay: bool | None  # more than a few records were read faster than they were produced; None: unknown
    speed: float | None  # seconds of log time per second at which they were read; as for `pace` of a load, or None
    pace: float | None  # event time per log time after the first epoch of each driver; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What an epoch read, and the time since the start of the one before; times in microseconds."""

    is_first: bool  # of its driver
    records: int
    elapsed: int  # of a first epoch, its duration
    event_time: int  # by which the newest event time advanced; 0 for a first epoch
    log_time: int  # by which the newest log timestamp did; of a first epoch, from the oldest one


def tells_real_speed(pace: float | None) -> bool:
    """Return whether log timestamps are the times at which records were produced, not those of a bulk load.

    Args:
        pace: Event time per log time; None if unknown.
    """
    return pace is not None and pace <= LOAD


def measure_read_speed(records: Sequence[EpochRecord]) -> ReadSpeed:
    """Return the speed at which epochs read the topic of the newest one, and the pace of event time in it.

    Nothing is known if no epoch read any record, or if a clock was set back.
    """
    drivers = _limit_wrong_clocks(_list_steps(records))
    durations = [sum(step.elapsed for step in steps) for steps in drivers]
    if sum(durations) <= 0 or min(durations) < 0:
        return ReadSpeed(is_replay=None, speed=None, pace=None)
    steps = [step for driver in drivers for step in driver]
    later = [step for step in steps if not step.is_first]
    event_time, log_time = (sum(map(attrgetter(name), later)) for name in ("event_time", "log_time"))
    pace = event_time / log_time if log_time > 0 else None
    replayed = [step for driver in drivers for step in _list_replayed(driver)]
    event_time_per_record = event_time / _count_records(later) if later else inf
    unknown = [
        step
        for step in steps
        if step.is_first and step not in replayed and event_time_per_record * step.records > REPLAY * step.elapsed
    ]
    few = FEW * _count_records(steps)
    is_replay = _count_records(replayed) > few
    is_known = is_replay or _count_records(replayed) + _count_records(unknown) <= few
    measured = replayed if is_replay else steps
    return ReadSpeed(
        is_replay=is_replay if is_known else None,
        speed=_divide_log_time(measured) if is_known and tells_real_speed(pace) else None,
        pace=pace,
    )


def _count_records(steps: Sequence[_Step]) -> int:
    return sum(step.records for step in steps)


def _divide_log_time(steps: Sequence[_Step]) -> float | None:
    elapsed = sum(step.elapsed for step in steps)
    return sum(step.log_time for step in steps) / elapsed if elapsed > 0 else None


def _list_replayed(driver: Sequence[_Step]) -> list[_Step]:
    """List the steps of a driver that advanced in event time or log time much faster than the clock."""
    by_log = _find_catch_up([(step.elapsed, step.log_time) for step in driver])
    by_event = _find_catch_up([(step.elapsed, step.event_time) for step in driver[1:]])
    places = {*by_log, *(place + 1 for place in by_event)}
    return [step for place, step in enumerate(driver) if place in places]


def _find_catch_up(advances: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the places at which the lag fell below its least value so far, faster than the clock advanced since.

    Args:
        advances: Processing time that elapsed and the time by which records advanced, microseconds.
    """
    lag = least_lag = elapsed_since = 0
    for place, (elapsed, advance) in enumerate(advances):
        lag += elapsed - advance
        elapsed_since += elapsed
        if lag < least_lag:
            if least_lag - lag > (REPLAY - 1) * elapsed_since:
                yield place
            least_lag, elapsed_since = lag, 0


def _list_steps(records: Sequence[EpochRecord]) -> list[list[_Step]]:
    """List the steps of each driver."""
    busy = [record for record in records if record.records and record.max_event and record.processing_time]
    of_topic = (record for record in busy if record.topic_id == busy[-1].topic_id)
    drivers, newest_before = list[list[_Step]](), 0
    for _, run in groupby(of_topic, attrgetter("run_id")):
        first, *later = run
        newest = _find_newest_log_time(first)
        # Log timestamps that go back are those of producers: the records were appended after the driver before.
        oldest = max(newest if first.oldest_log_time is None else first.oldest_log_time, newest_before)
        steps = [
            _Step(
                is_first=True,
                records=first.records,
                elapsed=round(first.seconds * 1e6),
                event_time=0,
                log_time=max(0, newest - oldest),
            )
        ]
        for previous, record in pairwise([first, *later]):
            advanced_to = _find_newest_log_time(record)
            steps.append(
                _Step(
                    is_first=False,
                    records=record.records,
                    elapsed=_find_start(record) - _find_start(previous),
                    event_time=max(0, max(record.max_event.values()) - max(previous.max_event.values())),
                    log_time=max(0, advanced_to - newest) if newest > 0 else 0,
                )
            )
            newest = max(newest, advanced_to)
        newest_before = newest
        drivers.append(steps)
    return drivers


def _limit_wrong_clocks(drivers: list[list[_Step]]) -> list[list[_Step]]:
    """Limit the log time of first epochs by that of later ones."""
    later = [step for driver in drivers for step in driver[1:]]
    log_time = sum(step.log_time for step in later)
    if log_time <= 0:
        return drivers
    per_record = SPARSER * log_time / _count_records(later)
    return [
        [replace(first, log_time=min(first.log_time, round(per_record * first.records))), *rest]
        for first, *rest in drivers
    ]


def _find_start(record: EpochRecord) -> int:
    return parse_micros(record.processing_time) - round(record.seconds * 1e6)


def _find_newest_log_time(record: EpochRecord) -> int:
    """Return the newest log timestamp of the last records read, microseconds; 0 if none is recorded."""
    return max((mark.log_time for marks in record.marks.values() for mark in marks), default=0) * 1_000

"""Speed at which epochs read a log, compared with the pace at which its records were produced.

Time moves only between epochs, and between the runs of drivers no record is judged. So the log time of the records that
the drivers read is compared with the time for which these drivers ran, the first epoch of each included: a day that one
epoch reads in seconds was replayed, even if such an epoch runs once a day.

Epochs do not record where the event time of their records begins. Hence log timestamps of a driver's first epoch cannot
be recognized as those of a bulk load, and its records are taken to be produced at the pace of later ones. If the answer
depends on that, it is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import attrgetter

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""A log was replayed if its event time or log time advanced faster than processing time by this factor."""

LOAD = 2.0
"""Log timestamps are those of a bulk load if event time advanced faster than log time by this factor."""

SPARSER = 10
"""Records of a first epoch are at most this much rarer than later ones; an older log timestamp is a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpeed:
    """Speed of reading, over the time for which drivers ran."""

    is_replay: bool | None  # the log was read faster than it was produced; None: unknown
    speed: float | None  # seconds of log time per second; None: unknown, or log timestamps are those of a load
    pace: float | None  # event time per log time after the first epoch of each driver; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class _DriverRun:
    """Records read by one driver; times in microseconds."""

    elapsed: int  # from the start of the first epoch to the end of the last one
    event_time: int  # by which the newest event time advanced after the first epoch
    log_time: int  # by which the newest log timestamp did
    first_log_time: int  # between the oldest and the newest log timestamp of the first epoch
    first_records: int
    later_records: int


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
    runs = _list_runs(records)
    elapsed = sum(run.elapsed for run in runs)
    if not runs or min(run.elapsed for run in runs) < 0 or elapsed <= 0:
        return ReadSpeed(is_replay=None, speed=None, pace=None)
    first, later = sum(run.first_records for run in runs), sum(run.later_records for run in runs)
    event_time, later_log_time = sum(run.event_time for run in runs), sum(run.log_time for run in runs)
    pace = event_time / later_log_time if later_log_time > 0 else None
    first_log_time = float(sum(run.first_log_time for run in runs))
    if later_log_time > 0:
        first_log_time = min(first_log_time, SPARSER * later_log_time * first / later)
    log_time = later_log_time + first_log_time
    at_least = max(event_time, log_time)
    at_most = max(log_time, event_time * (first + later) / later) if later else inf
    is_known = at_least > REPLAY * elapsed or at_most <= REPLAY * elapsed
    return ReadSpeed(
        is_replay=at_least > REPLAY * elapsed if is_known else None,
        speed=log_time / elapsed if is_known and tells_real_speed(pace) else None,
        pace=pace,
    )


def _list_runs(records: Sequence[EpochRecord]) -> list[_DriverRun]:
    busy = [record for record in records if record.records and record.max_event and record.processing_time]
    of_topic = (record for record in busy if record.topic_id == busy[-1].topic_id)
    runs, newest_before = list[_DriverRun](), 0
    for _, run in groupby(of_topic, attrgetter("run_id")):
        first, *later = run
        last = later[-1] if later else first
        started = parse_micros(first.processing_time) - round(first.seconds * 1e6)
        newest_of_first, newest = map(_find_newest_log_time, (first, last))
        # Log timestamps that go back are those of producers: the records were appended after the driver before.
        oldest = max(newest_of_first if first.oldest_log_time is None else first.oldest_log_time, newest_before)
        runs.append(
            _DriverRun(
                elapsed=parse_micros(last.processing_time) - started,
                event_time=max(last.max_event.values()) - max(first.max_event.values()),
                log_time=max(0, newest - newest_of_first) if newest_of_first > 0 else 0,
                first_log_time=max(0, newest_of_first - oldest),
                first_records=first.records,
                later_records=sum(record.records for record in later),
            )
        )
        newest_before = newest
    return runs


def _find_newest_log_time(record: EpochRecord) -> int:
    """Return the newest log timestamp of the last records read, microseconds; 0 if none is recorded."""
    return max((mark.log_time for marks in record.marks.values() for mark in marks), default=0) * 1_000

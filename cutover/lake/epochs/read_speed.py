"""Speed at which epochs read a log, beside the pace at which its records came about."""

from collections.abc import Sequence
from dataclasses import dataclass

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""A log whose event time or log time goes by so many times faster than the time in which it is read was replayed."""

LOAD = 2.0
"""Log timestamps by which event time goes by so many times faster than log time are those of a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpeed:
    """Speed of reading, from the first to the last epoch that read records."""

    is_replay: bool  # the log was read faster than it came about
    speed: float | None  # log time that went by for each second; None: unknown, or log timestamps are those of a load


def measure_read_speed(records: Sequence[EpochRecord]) -> ReadSpeed:
    """Return the speed at which epochs read a log, by the log timestamps of the last records that they read.

    Unknown where fewer than two epochs read any record, where a clock was set back, or where log timestamps are those
    of a load. Event time still tells then that the log was replayed.
    """
    busy = [record for record in records if record.records and record.max_event and record.processing_time]
    if len(busy) < 2:  # noqa: PLR2004 -- a speed takes two moments
        return ReadSpeed(is_replay=False, speed=None)
    first, last = busy[0], busy[-1]
    elapsed = parse_micros(last.processing_time) - parse_micros(first.processing_time)
    if elapsed <= 0:
        return ReadSpeed(is_replay=False, speed=None)
    event_time = max(last.max_event.values()) - max(first.max_event.values())
    log_time = _find_newest_log_time(last) - _find_newest_log_time(first)
    is_known = log_time > 0 and event_time <= LOAD * log_time
    return ReadSpeed(
        is_replay=max(event_time, log_time if is_known else 0) > REPLAY * elapsed,
        speed=log_time / elapsed if is_known else None,
    )


def _find_newest_log_time(record: EpochRecord) -> int:
    """Return the newest log timestamp of the last records read, microseconds; 0 where none is recorded."""
    return max((mark.log_time for marks in record.marks.values() for mark in marks), default=0) * 1_000

"""Speed at which epochs read a log, compared with the pace at which its records were produced."""

from collections.abc import Sequence
from dataclasses import dataclass

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""A log was replayed if its event time or log time advanced faster than processing time by this factor."""

LOAD = 2.0
"""Log timestamps are those of a bulk load if event time advanced faster than log time by this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpeed:
    """Speed of reading, from the first to the last epoch that read records."""

    is_replay: bool  # the log was read faster than it was produced
    speed: float | None  # seconds of log time per second; None: unknown, or log timestamps are those of a load


def measure_read_speed(records: Sequence[EpochRecord]) -> ReadSpeed:
    """Return the speed at which epochs read a log, by the log timestamps of the last records that they read.

    The speed is unknown if fewer than two epochs read any record, if a clock was set back, or if log timestamps are
    those of a load. In the last case event time still shows that the log was replayed.
    """
    busy = [record for record in records if record.records and record.max_event and record.processing_time]
    if len(busy) < 2:  # noqa: PLR2004 -- a speed takes two moments
        return ReadSpeed(is_replay=False, speed=None)
    oldest, newest = busy[0], busy[-1]
    elapsed = parse_micros(newest.processing_time) - parse_micros(oldest.processing_time)
    if elapsed <= 0:
        return ReadSpeed(is_replay=False, speed=None)
    event_time = max(newest.max_event.values()) - max(oldest.max_event.values())
    log_time = _find_newest_log_time(newest) - _find_newest_log_time(oldest)
    is_known = log_time > 0 and event_time <= LOAD * log_time
    return ReadSpeed(
        is_replay=max(event_time, log_time if is_known else 0) > REPLAY * elapsed,
        speed=log_time / elapsed if is_known else None,
    )


def _find_newest_log_time(record: EpochRecord) -> int:
    """Return the newest log timestamp of the last records read, microseconds; 0 if none is recorded."""
    return max((mark.log_time for marks in record.marks.values() for mark in marks), default=0) * 1_000

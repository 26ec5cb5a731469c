"""Speed at which epochs read a log, beside the pace at which its events came about."""

from collections.abc import Sequence

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.timestamps import parse_micros

REPLAY = 2.0
"""Event time that goes by so many times faster than the time in which it is read was replayed."""


def find_read_speed(records: Sequence[EpochRecord]) -> float | None:
    """Return the event time that went by for each second between the first and the last epoch that read records.

    None: fewer than two read any, or their times do not tell, since a clock was set back.
    """
    busy = [one for one in records if one.records and one.max_event and one.processing_time]
    if len(busy) < 2:  # noqa: PLR2004 -- a speed takes two moments
        return None
    elapsed = parse_micros(busy[-1].processing_time) - parse_micros(busy[0].processing_time)
    lived = max(busy[-1].max_event.values()) - max(busy[0].max_event.values())
    return lived / elapsed if elapsed > 0 else None

"""Event time reached at each append, as a stream that is never behind would have known it.

The epochs of a replayed log do not show it: time moves from one to the next, and an epoch of a replay
holds hours. The log timestamps do. A record is appended at the latest log timestamp of its partition so far, since
producers may set timestamps that go back; records that were appended at once do not judge one another.

Source: Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; the rule itself: `cutover/records/watermark.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cutover.lake.epochs.read_speed import ReadSpeed
from cutover.reconcile.advisor.predict import Micros

UNKNOWN = -(1 << 62)
"""Event time where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Records in the order of partition and offset; microseconds."""

    partitions: Micros
    log_times: Micros
    events: Micros  # UNKNOWN: the record has none that moves the watermark


def compute_watermarks(records: Appended, idle_after: int) -> Micros:
    """Find the watermark just before each record was appended, for an out-of-orderness of 0.

    Args:
        records: Records of a log, in the order of partition and offset.
        idle_after: Time for which a partition without new records holds the watermark, microseconds.

    Returns:
        Microseconds in the order of the records; UNKNOWN where no event time had been seen.
    """
    if not len(records.partitions):
        return np.array([], np.int64)
    appended = find_append_times(records)
    times, steps = np.unique(appended, return_inverse=True)
    next_times = np.append(times[1:], times[-1])  # a state lasts until the next records come
    # The partitions with the latest append always hold the watermark, so it stays where it is once all are idle.
    latest = np.full(len(times), UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        latest = np.where(newest > UNKNOWN, np.maximum(latest, last_append), latest)
    low = np.full(len(times), -UNKNOWN, np.int64)
    for newest, last_append in _trace(records, appended, steps):
        is_active = (newest > UNKNOWN) & ((next_times - last_append < idle_after) | (last_append == latest))
        low = np.where(is_active, np.minimum(low, newest), low)
    event_times = np.maximum.accumulate(np.where(low == -UNKNOWN, UNKNOWN, low))
    previous_times = np.append(np.array([UNKNOWN], np.int64), event_times[:-1])
    micros: Micros = previous_times[steps]
    return micros


def _trace(records: Appended, appended: Micros, steps: Micros) -> Iterator[tuple[Micros, Micros]]:
    """Yield for each partition its newest event time and its last append after each step."""
    size = int(steps.max()) + 1
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        newest, last_append = np.full(size, UNKNOWN, np.int64), np.full(size, UNKNOWN, np.int64)
        np.maximum.at(newest, steps[is_in_partition], records.events[is_in_partition])
        last_append[steps[is_in_partition]] = appended[is_in_partition]
        yield np.maximum.accumulate(newest), np.maximum.accumulate(last_append)


def find_append_times(records: Appended) -> Micros:
    """Find when each record was appended: no earlier than any previous one in its partition."""
    appended = records.log_times.copy()
    for partition in np.unique(records.partitions):
        is_in_partition = records.partitions == partition
        appended[is_in_partition] = np.maximum.accumulate(appended[is_in_partition])
    return appended


def find_pace(read_speed: ReadSpeed, records: Appended) -> float | None:
    """Find the pace of event time by log time: that of the epochs, by which all commands decide, else of the records.

    Args:
        read_speed: Of the epochs that read the records.
        records: Records of the log.
    """
    return compute_pace(records) if read_speed.pace is None else read_speed.pace


def compute_pace(records: Appended) -> float | None:
    """Compute how far the newest event time advanced per log time; None if log time did not advance.

    The first and last hundredth of the records are ignored, so that one wrong clock does not change the result.
    """
    has_event = records.events > UNKNOWN
    if not has_event.any():
        return None
    appended = find_append_times(records)[has_event]
    order = np.argsort(appended, kind="stable")
    logged, lived = (
        np.subtract(*np.quantile(times, [0.99, 0.01], method="inverted_cdf"))
        for times in (appended[order], np.maximum.accumulate(records.events[has_event][order]))
    )
    return float(lived / logged) if logged > 0 else None

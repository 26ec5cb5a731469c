"""Event time as it stood whenever a record was appended: what a stream would have known that always kept up.

The epochs of a replayed log do not show it: time moves from one to the next, and an epoch of a replay
holds hours. The log timestamps do. A record is appended at the latest log timestamp of its partition so far, since
producers may set timestamps that go back; records that were appended at once do not judge one another.

Source: Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; the rule itself: `cutover/records/watermark.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cutover.reconcile.advisor.predict import Micros

UNKNOWN = -(1 << 62)
"""Event time where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Records in the order of partition and offset; microseconds."""

    partitions: Micros
    log_times: Micros
    events: Micros  # UNKNOWN: the record has none that moves the watermark


def find_reached(records: Appended, idle_after: int) -> Micros:
    """Return, of each record, the watermark just before it was appended, had the out-of-orderness been 0.

    Args:
        records: Of a log; in the order of partition and offset.
        idle_after: How long a partition that gets nothing holds the watermark, microseconds.

    Returns:
        Microseconds in the order of the records; UNKNOWN where no event time had been seen.
    """
    if not len(records.partitions):
        return np.array([], np.int64)
    appended = find_append_times(records)
    times, steps = np.unique(appended, return_inverse=True)
    after = np.append(times[1:], times[-1])  # a state lasts until the next records come
    # The last partitions to fall silent hold the watermark, however long they are: it stays once all are idle.
    latest = np.full(len(times), UNKNOWN, np.int64)
    for newest, last in _trace(records, appended, steps):
        latest = np.where(newest > UNKNOWN, np.maximum(latest, last), latest)
    low = np.full(len(times), -UNKNOWN, np.int64)
    for newest, last in _trace(records, appended, steps):
        is_active = (newest > UNKNOWN) & ((after - last < idle_after) | (last == latest))
        low = np.where(is_active, np.minimum(low, newest), low)
    reached = np.maximum.accumulate(np.where(low == -UNKNOWN, UNKNOWN, low))
    before = np.append(np.array([UNKNOWN], np.int64), reached[:-1])
    micros: Micros = before[steps]
    return micros


def _trace(records: Appended, appended: Micros, steps: Micros) -> Iterator[tuple[Micros, Micros]]:
    """Yield, of each partition, its newest event time and its last append after each step."""
    size = int(steps.max()) + 1
    for partition in np.unique(records.partitions):
        mine = records.partitions == partition
        newest, last = np.full(size, UNKNOWN, np.int64), np.full(size, UNKNOWN, np.int64)
        np.maximum.at(newest, steps[mine], records.events[mine])
        last[steps[mine]] = appended[mine]
        yield np.maximum.accumulate(newest), np.maximum.accumulate(last)


def find_append_times(records: Appended) -> Micros:
    """Return when each record was appended: no earlier than any before it in its partition."""
    appended = records.log_times.copy()
    for partition in np.unique(records.partitions):
        mine = records.partitions == partition
        appended[mine] = np.maximum.accumulate(appended[mine])
    return appended


def find_pace(records: Appended) -> float | None:
    """Return event time over log time; None where no log time or no event time went by.

    Both without the first and the last hundredth: one wrong clock is no pace.
    """
    events = records.events[records.events > UNKNOWN]
    if not len(events):
        return None
    logged, lived = (
        np.subtract(*np.quantile(times, [0.99, 0.01], method="inverted_cdf"))
        for times in (find_append_times(records), events)
    )
    return float(lived / logged) if logged > 0 else None

"""Delays of records on each path: at most the time from the oldest log timestamp of their epoch to the commit."""

from collections import deque
from collections.abc import Mapping, Sequence

from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.result.cost import Delay
from cutover.timestamps import parse_micros

LIVE_SECONDS = 86_400.0
"""Records older than this when the stream read them were replayed, or waited for an outage: no delay of a path."""


def select_live(epochs: Sequence[EpochRecord]) -> list[EpochRecord]:
    """Return the epochs with records that were read within a day."""
    return [epoch for epoch in epochs if (delay := _wait(epoch)) is not None and delay <= LIVE_SECONDS]


def count_replayed(epochs: Sequence[EpochRecord]) -> int:
    """Return the records of epochs whose oldest one was older than a day."""
    return sum(epoch.records for epoch in epochs if (delay := _wait(epoch)) is not None and delay > LIVE_SECONDS)


def measure_stream(live: Sequence[EpochRecord]) -> Delay:
    """Return the delay of the streaming path over epochs that were read within a day."""
    return _summarize([(_wait(epoch) or 0.0, epoch.records) for epoch in live], waiting=0)


def measure_batch(live: Sequence[EpochRecord], finished: Sequence[BatchRun]) -> Delay:
    """Return the delay of the batch path over the records of the same epochs.

    Args:
        live: The epochs.
        finished: All batch runs, in the order in which they were recorded. The first one whose cut holds an epoch has
            read its records.
    """
    waits, waiting = list_batch_waits(live, finished)
    return _summarize([(seconds, records) for _, seconds, records in waits], waiting=waiting)


def summarize_waits(waits: Sequence[tuple[float, int]]) -> Delay:
    """Return the delay of records of one day, of which none waits any more."""
    return _summarize(waits, waiting=0)


def list_batch_waits(
    live: Sequence[EpochRecord], finished: Sequence[BatchRun]
) -> tuple[list[tuple[BatchRun, float, int]], int]:
    """Return which run read the records of an epoch, after how many seconds, and how many; and those that wait."""
    run_waits: list[tuple[BatchRun, float, int]] = []
    unread: dict[str, deque[EpochRecord]] = {}
    for epoch in live:
        unread.setdefault(epoch.topic_id, deque()).append(epoch)
    for run in finished:
        ended, queue = parse_micros(run.finished), unread.get(run.topic_id, deque())
        while queue and _reaches(run.cut, queue[0].end):  # no later epoch ends before an earlier one
            run_waits.append((run, _seconds_since(queue[0], ended), queue.popleft().records))
    return run_waits, sum(epoch.records for queue in unread.values() for epoch in queue)


def _wait(epoch: EpochRecord) -> float | None:
    """Return the seconds from an epoch's oldest log timestamp to its record; None where either is not known."""
    if not epoch.records or epoch.oldest_log_time is None or not epoch.processing_time:
        return None
    return _seconds_since(epoch, parse_micros(epoch.processing_time))


def _seconds_since(epoch: EpochRecord, at: int) -> float:
    """Return the seconds from an epoch's oldest log timestamp to a moment; a producer's clock may be ahead of it."""
    return max(0.0, (at - (epoch.oldest_log_time or 0)) / 1e6)


def _reaches(cut: Mapping[int, int], end: Mapping[int, int]) -> bool:
    return all(cut.get(partition, 0) >= offset for partition, offset in end.items())


def _summarize(waits: Sequence[tuple[float, int]], *, waiting: int) -> Delay:
    ordered, total = sorted(waits), sum(records for _, records in waits)
    if not total:
        return Delay(records=0, waiting=waiting, p50=None, p90=None, p99=None, largest=None)
    p50, p90, p99 = (_quantile(ordered, share * total) for share in (0.5, 0.9, 0.99))
    return Delay(records=total, waiting=waiting, p50=p50, p90=p90, p99=p99, largest=round(ordered[-1][0], 3))


def _quantile(ordered: Sequence[tuple[float, int]], rank: float) -> float:
    """Return the least delay that at least `rank` records do not exceed."""
    running_records = 0
    for delay, records in ordered:
        running_records += records
        if running_records >= rank:
            return round(delay, 3)
    return round(ordered[-1][0], 3)

"""What the log holds of each epoch: records counted by reading, their newest timestamp; values are not looked at."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TypeVar

from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import LogError
from cutover.lake.control.losses import find_incomplete_ranges
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.integrity.lost_records import LostRecords, record_bounds
from cutover.lake.integrity.same_log import check_unchanged
from cutover.log.kafka import LogClient
from cutover.log.record_batches import OffsetRange
from cutover.reconcile.verify.facts.facts import LogCounts, VerifyFacts
from cutover.reconcile.verify.facts.source import Source
from cutover.settings import Settings

Result = TypeVar("Result")
MOST = 2_000_000  # offsets that are counted where not all are asked for
LOOKS = 3  # at a log whose start moves while it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class SameLog:
    """The log that the epochs were read from, as it is now."""

    client: LogClient
    topic: str
    isolation: str  # by which the epochs read it
    earliest: Mapping[int, int]  # partition -> first offset that is still there
    lost: Mapping[int, Sequence[OffsetRange]] = field(default_factory=dict)  # ranges recorded as having lost records

    def holds(self, record: EpochRecord) -> bool:
        """Return whether all that an epoch read is still there."""
        spans = ((p, record.start.get(p, 0), end) for p, end in record.end.items())
        return all(
            start >= self.earliest.get(p, 0)
            and not any(first < end and start < after for first, after in self.lost.get(p, ()))
            for p, start, end in spans
            if end > start
        )

    def ranges(self, records: Sequence[EpochRecord]) -> dict[int, tuple[int, int]]:
        """Return what some epochs that the log holds have read of each partition: it may begin with what is gone.

        An epoch that read nothing stands where the one before it ended, and what comes next may be lost.
        """
        starts = {p: _start_of(records, p) for p in records[-1].end}
        return {p: (max(start, self.earliest.get(p, 0)), records[-1].end[p]) for p, start in starts.items()}


def _start_of(records: Sequence[EpochRecord], partition: int) -> int:
    """Return where the first of some epochs that knows a partition begins to read it."""
    return next((r.start.get(partition, 0) for r in records if partition in r.end), 0)


def read_retained(source: Source, facts: VerifyFacts, read: Callable[[SameLog], Result]) -> Result:
    """Read what the log holds; from its new start where retention took records meanwhile.

    Raises:
        LogError: No broker answers, the topic is another log by now, or retention is always faster.
    """
    log = same_log(source.settings, source.pipeline.name, facts)
    for _ in range(LOOKS):
        try:
            return read(log)
        except LogError:
            before, log = log, same_log(source.settings, source.pipeline.name, facts)
            if log.earliest == before.earliest:
                raise
    return read(log)


def same_log(settings: Settings, name: str, facts: VerifyFacts) -> SameLog:
    """Return the log of these epochs of a pipeline.

    Raises:
        LogError: No broker answers, the topic is another log by now, or it holds other records than those read.
    """
    records = facts.records
    newest, client = records[-1], LogClient(settings)
    found = client.describe(newest.topic)
    if (found.cluster_id, found.topic_id) != (newest.cluster_id, newest.topic_id):
        msg = (
            f"Topic `{newest.topic}` has topic id {found.topic_id} by now, the epochs were read from {newest.topic_id}."
        )
        raise LogError(msg, runbook="TopicIdentityChanged")
    check_unchanged(name, client, newest, lambda: records)
    earliest = client.earliest(newest.topic)
    incomplete_ranges = find_incomplete_ranges(facts.losses, newest.topic_id)
    return SameLog(
        client=client, topic=newest.topic, isolation=newest.isolation, earliest=earliest, lost=incomplete_ranges
    )


def counts(source: Source, facts: VerifyFacts) -> LogCounts:
    """Count the newest epochs' records, of all epochs that the log still holds if all are asked for.

    Raises:
        LogError: No broker answers, or the topic is another log by now.
    """
    if not facts.records:
        return LogCounts(records={}, newest={}, whole=True)
    return read_retained(source, facts, partial(_count_retained, source, facts))


def _count_retained(source: Source, facts: VerifyFacts, log: SameLog) -> LogCounts:
    held = select_retained(facts.records, log)
    chosen = held if source.asked.every else newest_of(held, MOST)
    records, newest = _count_records(log, chosen)
    totals = {r.epoch: sum(records[r.epoch, p] for p in r.end) for r in chosen}
    window = facts.pipeline.window
    lost = find_lost(log, [r for r in chosen if totals[r.epoch] < record_bounds(r.counts, window)[0]], window)
    gone = {each.epoch for each in lost}
    return LogCounts(
        records={at: n for at, n in records.items() if at[0] not in gone},
        newest=newest,
        whole=len(chosen) == len(facts.records),
        left_out=_describe_left_out(facts.records, held, chosen),
        lost=lost_records.format_lost(lost),
    )


def find_lost(log: SameLog, records: Sequence[EpochRecord], window: WindowFn) -> tuple[LostRecords, ...]:
    """Return the epochs whose missing records are the log's loss; of others the epoch itself counted wrong.

    Raises:
        LogError: No broker answers, or retention is faster than the count.
    """
    lost = lost_records.find_lost(log.client, records, (), window, most=lost_records.ALL)
    return tuple(each for each in lost if each.is_explained)


def select_retained(records: Sequence[EpochRecord], log: SameLog) -> Sequence[EpochRecord]:
    """Return the epochs from the first one on since which the log holds everything."""
    gone = [place for place, record in enumerate(records) if not log.holds(record)]
    return records[gone[-1] + 1 if gone else 0 :]


def newest_of(records: Sequence[EpochRecord], most: int) -> Sequence[EpochRecord]:
    """Return the newest epochs that together have read so many offsets at most."""
    spans = [sum(end - r.start.get(p, 0) for p, end in r.end.items()) for r in reversed(records)]
    fitting = sum(total <= most for total in accumulate(spans))
    return records[len(records) - fitting :]


def _count_records(log: SameLog, records: Sequence[EpochRecord]) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """Return the records by epoch and partition, and the newest log timestamp up to the end of each epoch."""
    found = {(r.epoch, p): 0 for r in records for p in r.end}
    if not records:
        return found, {}
    newest: dict[int, int] = {}
    ends = {p: [r.end.get(p, 0) for r in records] for p in records[-1].end}
    for p, offset, logged in log.client.positions(log.topic, log.ranges(records), log.isolation):
        record = records[bisect_right(ends[p], offset)]
        epoch = record.epoch
        found[epoch, p] += offset >= record.start.get(p, 0)
        if logged > newest.get(epoch, -1):
            newest[epoch] = logged
    so_far = accumulate((newest.get(r.epoch, -1) for r in records), max)
    return found, {r.epoch: at for r, at in zip(records, so_far, strict=True) if at >= 0}


def _describe_left_out(
    records: Sequence[EpochRecord], epoch_records: Sequence[EpochRecord], chosen: Sequence[EpochRecord]
) -> str:
    gone, rest = len(records) - len(epoch_records), len(epoch_records) - len(chosen)
    texts = []
    if gone:
        texts.append(
            f"Epochs up to {records[gone - 1].epoch} cannot be counted again: their records have left the log."
        )
    if rest:
        texts.append(f"{rest:,} older epochs were not counted again; --all counts them.")
    return " ".join(texts)

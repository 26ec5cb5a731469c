"""Delivery of each record to one epoch: offsets without gap and overlap, and data that are there twice or never.

Where the next epoch starts has this one definition, for the code that writes an epoch, reads its records from the log
or checks the written ones.

N3, no gap and no overlap, holds if every offset up to the newest epoch belongs to exactly one epoch: all epochs have
one topic id; epoch e + 1 starts where epoch e ended, in every partition; a new partition starts at 0, and no partition
disappears; epochs 0 to E have no gap; the table's transaction is E; no reader has seen a later epoch. The check uses
the rows of the epochs, which survive clean-up and compaction. It yields sentences, also for the seal.

If data and offsets are separate commits, each commit of data has a row that describes its attempt: run, offsets, and
windows. A recorded epoch without an attempt was lost; every attempt except the one of the driver that recorded the
epoch is a duplicate. Under `exactly_once` data and offsets are one commit, and no such row exists. A prefix of an epoch
log has the rows up to an epoch, unless a fold has merged them with rows of later epochs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from cutover import json_text
from cutover.counts import count_noun
from cutover.engine import queries
from cutover.json_text import EXACT
from cutover.lake.control import losses
from cutover.lake.control.losses import Starts, list_ends
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import COUNTED, RowKind
from cutover.log.topic_partitions import format_partition, format_partition_number, make_topic_partition

EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE = "exactly_once", "at_least_once", "at_most_once"
DOUBLED = "doubled"

_COUNTED = "SELECT _class, sum(_n)::BIGINT FROM log WHERE _epoch <= ? GROUP BY 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Commit of an epoch's data."""

    __pydantic_config__ = EXACT

    epoch: int
    run_id: str
    start: Mapping[int, int]  # partition -> first offset
    end: Mapping[int, int]  # partition -> next offset
    counts: Mapping[str, int]  # class -> (record, window) pairs
    windows: Starts | None  # first start and last end of its rows, microseconds; None: no row has a window

    def to_json(self) -> str:
        """Encode the attempt as one line of JSON, keys sorted."""
        return json_text.encode_dataclass(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `to_json` wrote.

        Raises:
            ValueError: The text is not an attempt.
        """
        return json_text.parse_dataclass(cls, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFaults:
    """Attempts and epochs that were not delivered exactly once."""

    doubled: tuple[Attempt, ...] = ()
    lost: tuple[EpochRecord, ...] = ()

    @property
    def doubled_windows(self) -> tuple[Starts, ...]:
        """Return the ranges `[first start, last end)` whose windows may count records twice."""
        return tuple(attempt.windows for attempt in self.doubled if attempt.windows)

    @property
    def lost_windows(self) -> tuple[Starts, ...]:
        """Return the ranges whose windows may miss records."""
        return tuple(record.windows for record in self.lost if record.windows)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each range that was delivered twice or never."""
        doubled = (f"{_place(a)} were written once more than counted by {a.run_id}" for a in self.doubled)
        lost_texts = (f"{_place(record)} were never written: {record.run_id} ended first" for record in self.lost)
        return (*(f"Doubled: {text}." for text in doubled), *(f"Lost: {text}." for text in lost_texts))


NO_FAULTS = DeliveryFaults()


def read_attempts(epoch_log: EpochLog, records: Iterable[EpochRecord]) -> tuple[Attempt, ...]:
    """Read all attempts of an epoch log, by epoch; nothing is read if all of its records are exactly once."""
    if all(record.delivery == EXACTLY_ONCE for record in records):
        return ()
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=(RowKind.ATTEMPT,))
        query = "SELECT _record FROM log ORDER BY _epoch, _record"
        with delta.naming(epoch_log.table):
            rows = connection.execute(query).fetchall()
    return tuple(Attempt.from_json(row[0]) for row in rows)


def find_delivery_faults(records: Sequence[EpochRecord], attempts: Iterable[Attempt]) -> DeliveryFaults:
    """Find the recorded epochs that were delivered twice or never.

    Args:
        records: Epoch records.
        attempts: Attempts; those of epochs that are not recorded yet are ignored.
    """
    records_by_epoch = {
        record.epoch: record for record in records if record.delivery != EXACTLY_ONCE and record.end_moved
    }
    delivered: set[int] = set()
    doubled = []
    for attempt in attempts:
        record = records_by_epoch.get(attempt.epoch)
        if record is None:
            continue
        if attempt.run_id == record.run_id and attempt.epoch not in delivered:
            delivered.add(attempt.epoch)
        else:
            doubled.append(attempt)
    lost_records = tuple(record for epoch, record in records_by_epoch.items() if epoch not in delivered)
    return DeliveryFaults(doubled=tuple(doubled), lost=lost_records)


def sum_effective_counts(records: Iterable[EpochRecord], attempts: Iterable[Attempt]) -> dict[int, Mapping[str, int]]:
    """Return the pairs by class that the rows of each recorded epoch must sum to."""
    by_epoch: dict[int, Counter[str]] = {}
    for attempt in attempts:
        by_epoch.setdefault(attempt.epoch, Counter()).update(attempt.counts)
    return {
        record.epoch: record.counts if record.delivery == EXACTLY_ONCE else by_epoch.get(record.epoch, Counter())
        for record in records
    }


def _place(source: Attempt | EpochRecord) -> str:
    spans = (
        f"{format_partition_number(partition)}: {source.start.get(partition, 0)} to {end - 1}"
        for partition, end in sorted(source.end.items())
        if end > source.start.get(partition, 0)
    )
    return f"epoch {source.epoch}, offsets {', '.join(spans)}"


def find_folded_classes(epoch_log: EpochLog, records: Sequence[EpochRecord]) -> list[str]:
    """Find the classes whose rows do not sum to the counts of the first epochs, because a fold merged them.

    A fold gives rows of several epochs the number of the last one, so that earlier epochs cannot be separated.

    Args:
        epoch_log: The log.
        records: All of its records up to an epoch, at least one.
    """
    expected: dict[str, int] = {}
    for counts in sum_effective_counts(records, read_attempts(epoch_log, records)).values():
        for kind, pairs in counts.items():
            expected[kind] = expected.get(kind, 0) + pairs
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", epoch_log.table, kinds=COUNTED)
        with delta.naming(epoch_log.table):
            counts_by_class = dict(connection.execute(_COUNTED, [records[-1].epoch]).fetchall())
    return [kind for kind, pairs in expected.items() if int(counts_by_class.get(kind) or 0) != pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGap:
    """Partition that does not hold the next offset to read."""

    partition: int
    expected: int  # offset
    first: int | None  # first offset that it still holds; None: the partition does not exist
    end: int | None  # its next offset

    @property
    def is_short(self) -> bool:
        """Return whether the log ends before the offset, or lacks the partition: new records will reuse its offsets."""
        return self.end is None or self.expected > self.end

    @property
    def text(self) -> str:
        """Describe the expected offset and what the log holds."""
        if self.first is None or self.end is None:
            return f"expected offset {self.expected}, is not there"
        make_topic_partition, missing = (
            ("ends", self.expected - self.end) if self.is_short else ("starts", self.first - self.expected)
        )
        at = self.end if self.is_short else self.first
        return f"expected offset {self.expected}, log {make_topic_partition} at {at}: {missing} offsets are gone"


def compute_next_epoch(record: EpochRecord | None) -> int:
    """Return the number of the epoch after a record; 0 if there is no epoch yet."""
    return 0 if record is None else record.epoch + 1


def count_unread(ends: Mapping[int, int], read: Mapping[int, int]) -> int:
    """Count the offsets between a position and the ends of the log, control records of transactions included."""
    return sum(max(0, end - read.get(partition, 0)) for partition, end in ends.items())


def expect_start(
    record: EpochRecord | None, accepted: Iterable[Loss], topic_id: str, *, epoch: int | None = None
) -> dict[int, int]:
    """Return partition -> offset at which the epoch after a record starts; other partitions start at 0.

    Without a record, only losses name offsets: the other partitions start where the log begins.

    Args:
        record: Record of the previous epoch; None: there is no epoch yet.
        accepted: Recorded losses of the version; those of this epoch and topic id replace the end of the record.
        topic_id: Topic id of the log from which the epoch is read.
        epoch: Number of the epoch, if it may not be the next one.
    """
    ends = {} if record is None else dict(record.end)
    return ends | losses.find_start_offsets(accepted, compute_next_epoch(record) if epoch is None else epoch, topic_id)


def find_breaks(start: Mapping[int, int], expected: Mapping[int, int]) -> Iterator[int]:
    """Yield the partitions, ascending, that an epoch lacks or starts at another offset than expected."""
    return (partition for partition, offset in sorted(expected.items()) if start.get(partition) != offset)


def follows(record: EpochRecord | None, epoch_record: EpochRecord, accepted: Iterable[Loss] = ()) -> bool:
    """Return whether an epoch follows a record: the next number, and the same offsets or those after recorded losses.

    New partitions are not checked.
    """
    expected = expect_start(record, accepted, epoch_record.topic_id)
    return epoch_record.epoch == compute_next_epoch(record) and not list(find_breaks(epoch_record.start, expected))


def next_offsets(record: EpochRecord | None, accepted: Sequence[Loss], topic_id: str) -> dict[int, int] | None:
    """Return the offsets at which the next epoch must start; None: where the log begins.

    These are the end of the newest epoch, or the offsets after losses that were recorded for the next one. Other
    partitions start at 0.
    """
    if record is None and not list_ends(accepted):
        return None
    return expect_start(record, accepted, topic_id)


def find_offset_gaps(
    next_offsets: Mapping[int, int], *, earliest: Mapping[int, int], latest: Mapping[int, int]
) -> tuple[OffsetGap, ...]:
    """Find the partitions that do not hold their next offset, by number."""
    holes = (
        OffsetGap(partition=p, expected=offset, first=earliest.get(p), end=latest.get(p))
        for p, offset in sorted(next_offsets.items())
    )
    return tuple(hole for hole in holes if hole.is_short or hole.first is None or hole.expected < hole.first)


def format_gaps(log: str, holes: Sequence[OffsetGap]) -> str:
    """Describe the gaps of a log's partitions, by topic."""
    by_topic: dict[str, list[str]] = {}
    for hole in holes:
        at = make_topic_partition(log, hole.partition)
        by_topic.setdefault(str(at.topic), []).append(f"partition {at.partition}: {hole.text}")
    return ". ".join(f"Topic {topic}, {'; '.join(texts)}" for topic, texts in by_topic.items())


def describe_number_gaps(stream: str, records: Sequence[EpochRecord], transaction: int | None) -> Iterator[str]:
    """Yield a sentence if the transaction differs from the newest number, or a number is missing or duplicated."""
    epochs = [record.epoch for record in records]
    newest = max(epochs, default=-1)
    if (-1 if transaction is None else transaction) != newest:
        yield f"Epoch log of {stream}: transaction says {transaction}, newest epoch row is {newest}."
    missing = sorted(set(range(newest + 1)) - set(epochs))
    if missing or len(set(epochs)) != len(epochs):
        text = f"Epoch log of {stream}: expected epochs 0 to {newest} once each, got {count_noun(len(epochs), 'row')}"
        yield text + (f", epoch {missing[0]} is missing." if missing else ".")


def describe_offset_breaks(stream: str, records: Sequence[EpochRecord], losses: Sequence[Loss]) -> Iterator[str]:
    """Yield each epoch and partition that does not continue the previous epoch, ends before it starts, or is missing.

    Only a recorded loss permits it: in its first epoch, in its partition, and up to the offset that it names.
    """
    for record in records[:1]:
        yield from _describe_offset_breaks_of_epoch(
            stream, record, dict(record.start)
        )  # the first epoch starts where the log began
    for previous, record in pairwise(records):
        new = dict.fromkeys(set(record.start) - set(previous.end), 0)
        expected = expect_start(previous, losses, record.topic_id, epoch=record.epoch)
        yield from _describe_offset_breaks_of_epoch(stream, record, new | expected)


def _describe_offset_breaks_of_epoch(stream: str, record: EpochRecord, expected: Mapping[int, int]) -> Iterator[str]:
    breaks = set(find_breaks(record.start, expected))
    for p, offset in sorted(expected.items()):
        start, end = record.start.get(p), record.end.get(p)
        if p in breaks or end is None or end < offset:
            place = format_partition(record.topic, p)
            text = f"Epoch log of {stream}: epoch {record.epoch}, {place}: expected to start at"
            yield f"{text} {offset}, got {start} (end {end})."


def describe_log_changes(stream: str, records: Sequence[EpochRecord]) -> Iterator[str]:
    """Yield each epoch that read another log than the previous epoch."""
    for previous, record in pairwise(records):
        expected, actual = (previous.cluster_id, previous.topic_id), (record.cluster_id, record.topic_id)
        if expected != actual:
            text = f"Epoch log of {stream}: epoch {record.epoch}: expected topic id {expected[1]} of cluster"
            yield text + f" {expected[0]}, got {actual[1]} of {actual[0]}."

"""Records that a log lost inside ranges that epochs have read: the records of each epoch are counted again.

An epoch records how many records it read. A reader under the same isolation gets the same number again for as long as
the log holds its range, whatever transactions are in it, so a smaller number is a loss. Compaction removes records
inside a log, and a compacted topic is rejected even before it has lost any.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cutover.counts import count_noun
from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import LogError
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import find_incomplete_ranges
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity.same_log import make_mark
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.log import topic_partitions
from cutover.log.cut import Mark
from cutover.log.kafka import LogClient, Ranges
from cutover.log.record_batches import (
    MissingRecords,
    OffsetRange,
    RecordBatch,
    find_missing_records,
    format_missing,
)
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class

MOST = 500_000
"""Offsets that are counted at a time: about half a second. The epochs of a longer log are counted in several turns."""

ALL = 1 << 62
"""Offsets of a portion that holds every epoch."""

_NAMED = 2  # epochs that a message names
_ATTEMPTS = 3  # to count a log whose start moves meanwhile
_SINGLE = (Class.MALFORMED, Class.FILTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """Records of one epoch that the log no longer holds."""

    epoch: int
    topic: str
    expected: int  # records that the epoch read, at least
    actual: int  # records of the epoch that the log still holds
    missing: tuple[MissingRecords, ...]  # offsets without a record, those of control records too

    @property
    def is_explained(self) -> bool:
        """Return whether offsets without a record account for all missing records; else the epoch miscounted."""
        return self.expected - self.actual <= sum(gap.missing for gap in self.missing)

    @property
    def text(self) -> str:
        """Describe which epoch lacks how many records, and where."""
        lacking = self.expected - self.actual  # an offset of a control record is a gap, but no record that was read
        gaps = [gap._replace(missing=min(gap.missing, lacking)) for gap in self.missing]
        offsets = format_missing(self.topic, gaps) if gaps else "no offset is named"
        return (
            f"Epoch {self.epoch} read {count_noun(self.expected, 'record')}, the log holds "
            f"{self.actual:,} of them. {offsets}"
        )


class CountableLog(Protocol):
    """Part of `LogClient` that counting records needs."""

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the first offset that each partition still holds."""

    def positions(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[tuple[int, int, int]]:
        """Yield partition, offset and log timestamp of the records of ranges of several partitions."""


def check_not_compacted(client: LogClient, log: str) -> None:
    """Check that no topic of a log is compacted.

    Raises:
        LogError: `cleanup.policy` of a topic includes `compact`, or no broker answers.
    """
    for topic in topic_partitions.split_topics(log):
        policy = client.config(topic).get("cleanup.policy", "delete")
        if "compact" in policy:
            msg = (
                f"Topic {topic}: expected cleanup.policy `delete`, got `{policy}`.\n"
                "Hint: compaction removes records that both paths have to read; set the policy to `delete` and start "
                "again, which names the records that are missing by then."
            )
            raise LogError(msg, runbook="LogDataLost")


def find_lost(
    client: CountableLog,
    records: Sequence[EpochRecord],
    losses: Iterable[Loss],
    window: WindowFn,
    *,
    turn: int = 0,
    max_offsets: int = MOST,
) -> tuple[LostRecords, ...]:
    """Count the records that the log holds of some epochs, and return the epochs that read more than it holds.

    Args:
        client: Reads the log, which has the topic id of the epochs.
        records: Records of all epochs of a version, by number.
        losses: Losses that were accepted: epochs in their ranges are not counted.
        window: Window of the definition.
        turn: Selects the portion of epochs that is counted, if there are more than `max_offsets` offsets.
        max_offsets: Offsets of a portion.

    Raises:
        LogError: No broker answers, or retention is faster than the count.
    """
    for attempt in range(_ATTEMPTS):
        earliest = client.earliest(records[-1].topic) if records else {}
        portions = divide_epochs(select_countable(records, earliest, losses), max_offsets)
        if not portions:
            return ()
        try:
            return tuple(_count_portion(client, portions[turn % len(portions)], window))
        except LogError:
            if attempt == _ATTEMPTS - 1 or client.earliest(records[-1].topic) == earliest:
                raise
    return ()


def find_complete_epochs(
    client: LogClient,
    records: Sequence[EpochRecord],
    missing: Sequence[MissingRecords],
    window: WindowFn | None,
) -> list[EpochRecord]:
    """Find the epochs over gaps of a log of which a reader still gets every record that they read.

    A log never returns more of a range than it once did: aborted records stay hidden, and deleted records are not
    restored. So a reader that gets as many records of an epoch's range as the epoch read gets all of them, and the
    missing offsets of the range held no record for a reader of this isolation: an aborted record, or the marker of a
    transaction. This requires that the log is the one that the epoch read, which the epoch's marks prove, and that the
    epoch's count is exact.

    Args:
        client: Reads the log, which has the topic id of the epochs.
        records: Records of epochs of one version, by number; all were read under the isolation of the reader.
        missing: The gaps.
        window: Window of their definition; None: unknown, so only counts with one window per record are exact.

    Raises:
        LogError: No broker answers, or records leave the log while they are counted.
    """
    earliest = client.earliest(records[-1].topic) if records else {}
    candidates = [
        record
        for record in select_countable(records, earliest, ())
        if _is_count_exact(record, window) and _reads_any(record, missing)
    ]
    return [record for run in _list_runs(candidates) for record in _select_complete(client, run)]


def check_none_lost(  # noqa: PLR0913 -- the arguments of `find_lost`, and a name
    name: str,
    client: LogClient,
    records: Sequence[EpochRecord],
    losses: Iterable[Loss],
    window: WindowFn,
    *,
    turn: int = 0,
    max_offsets: int = MOST,
) -> None:
    """Check that a log is not compacted and has not lost records which epochs have read.

    Args:
        name: Name of the pipeline, for the message.
        client: See `find_lost`, also for the other arguments.
        records: Records of all epochs of a version, by number.
        losses: Losses that were accepted.
        window: Window of the definition.
        turn: Selects the portion that is counted.
        max_offsets: Offsets of a portion.

    Raises:
        LogError: It is compacted, or lost records; names the epochs and offsets. Or no broker answers.
    """
    if not records:
        return
    check_not_compacted(client, records[-1].topic)
    lost_records = find_lost(client, records, losses, window, turn=turn, max_offsets=max_offsets)
    if lost_records:
        raise make_lost_error(name, format_lost(lost_records))


def check_log_of_version(lake: PipelineLake) -> None:
    """Check that the log of the current version is not compacted and lost no records; every epoch is counted.

    Call it after a read of the log: lost records never reappear.

    Raises:
        LogError: It is compacted, or lost records; names the epochs and offsets. Or no broker answers.
    """
    version = versions.find_current_version(lake)
    if version is None or not delta.exists(version.uri):
        return
    records, accepted = EpochLog(version.uri).records(), losses.list_up_to(lake.settings, version)
    check_none_lost(lake.name, LogClient(lake.settings), records, accepted, lake.pipeline.window, max_offsets=ALL)


def format_lost(lost_records: Sequence[LostRecords]) -> str:
    """Describe which epochs lack records, and where, without a final full stop; only the first epochs are named."""
    more = f". And {count_noun(len(lost_records) - _NAMED, 'more epoch')}" if len(lost_records) > _NAMED else ""
    return ". ".join(epoch.text for epoch in lost_records[:_NAMED]) + more


def make_lost_error(name: str, text: str) -> LogError:
    """Return the error for a log that lost records inside a range; `text` names epochs and offsets."""
    msg = f"{text}.\nHint: compaction or a deletion removed records inside the log; nothing was written since. "
    msg += f"`cutover accept-loss {name}` shows the lost records and how to continue."
    return LogError(msg, runbook="LogDataLost")


def select_countable(
    records: Sequence[EpochRecord], earliest: Mapping[int, int], losses: Iterable[Loss]
) -> list[EpochRecord]:
    """Return the epochs with data whose whole range the log should hold.

    Args:
        records: Records of all epochs, by number.
        earliest: First offset that each partition holds.
        losses: Losses that were accepted.
    """
    lost_ranges = find_incomplete_ranges(losses, records[-1].topic_id) if records else {}

    def is_countable(record: EpochRecord) -> bool:
        ranges = [(p, record.start.get(p, 0), end) for p, end in record.end.items() if end > record.start.get(p, 0)]
        is_retained = all(start >= earliest.get(p, 0) for p, start, _ in ranges)
        is_accepted = any(
            lost_start < end and start < stop for p, start, end in ranges for lost_start, stop in lost_ranges.get(p, ())
        )
        return bool(ranges) and is_retained and not is_accepted

    return [record for record in records if is_countable(record)]


def divide_epochs(records: Sequence[EpochRecord], max_offsets: int) -> list[list[EpochRecord]]:
    """Divide epochs into portions of at most `max_offsets`, the newest epochs first; an epoch is never divided."""
    portions: list[list[EpochRecord]] = []
    room = 0
    for record in reversed(records):
        span = sum(end - record.start.get(p, 0) for p, end in record.end.items())
        if not portions or span > room:
            portions.append([])
            room = max_offsets
        portions[-1].append(record)
        room -= span
    return portions


def record_bounds(counts: Mapping[str, int], window: WindowFn) -> tuple[int, int]:
    """Return the least and the greatest number of records that yield some (record, window) pairs.

    Both are equal if every record falls into the same number of windows.

    Args:
        counts: Class to pairs.
        window: Window of the definition.
    """
    single = sum(counts.get(name, 0) for name in _SINGLE)
    windowed = sum(counts.values()) - single
    return single + -(-windowed // window.max_windows), single + windowed // window.min_windows


def _count_portion(client: CountableLog, portion: Sequence[EpochRecord], window: WindowFn) -> Iterator[LostRecords]:
    for run in _list_runs(sorted(portion, key=lambda record: record.epoch)):
        counts = _count_run(client, run)
        for record in run:
            expected, _ = record_bounds(record.counts, window)
            if counts[record.epoch] < expected:
                yield LostRecords(
                    epoch=record.epoch,
                    topic=record.topic,
                    expected=expected,
                    actual=counts[record.epoch],
                    missing=tuple(_find_missing_of(client, record)),
                )


def _is_count_exact(record: EpochRecord, window: WindowFn | None) -> bool:
    """Return whether the pairs of an epoch agree with the number of records that it recorded."""
    if window is None:
        return sum(record.counts.values()) == record.records
    least, greatest = record_bounds(record.counts, window)
    return least <= record.records <= greatest


def _reads_any(record: EpochRecord, missing: Iterable[MissingRecords]) -> bool:
    """Return whether an epoch read a range that overlaps a gap."""
    ranges = _ranges_of(record)
    spans = ((gap, ranges.get(gap.partition, (0, 0))) for gap in missing)
    return any(start < gap.next_offset and gap.first_offset < end for gap, (start, end) in spans)


def _select_complete(client: LogClient, run: Sequence[EpochRecord]) -> Iterator[EpochRecord]:
    """Yield the epochs of a run of which a reader gets as many records as they read, including all marked records."""
    ends = {p: [record.end.get(p, 0) for record in run] for p in run[-1].end}
    ranges = {p: (_find_start(run, p), end) for p, end in run[-1].end.items()}
    counts = {record.epoch: 0 for record in run}
    unread_marks = {record.epoch: _collect_own_marks(record) for record in run}
    for message in client.messages(run[0].topic, ranges, run[0].isolation):
        partition, offset = (
            topic_partitions.number_message_partition(run[0].topic, message),
            topic_partitions.get_offset(message),
        )
        epoch = run[bisect_right(ends[partition], offset)].epoch
        counts[epoch] += 1
        mark = unread_marks[epoch].get((partition, offset))
        if mark is not None and mark == make_mark(message):
            del unread_marks[epoch][partition, offset]
    yield from (record for record in run if counts[record.epoch] == record.records and not unread_marks[record.epoch])


def _collect_own_marks(record: EpochRecord) -> dict[tuple[int, int], Mark]:
    """Return the marks of the records that an epoch read, by partition and offset, without those of earlier epochs."""
    ranges = _ranges_of(record)
    return {
        (partition, mark.offset): mark
        for partition, (start, end) in ranges.items()
        for mark in record.marks.get(partition, ())
        if start <= mark.offset < end
    }


def _list_runs(records: Sequence[EpochRecord]) -> list[list[EpochRecord]]:
    """Divide epochs, ascending, into runs without gaps between them: each run is read as one range."""
    runs: list[list[EpochRecord]] = []
    for record in records:
        previous = runs[-1][-1] if runs else None
        follows = previous is not None and all(record.start.get(p, 0) == end for p, end in previous.end.items())
        if follows:
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def _count_run(client: CountableLog, run: Sequence[EpochRecord]) -> dict[int, int]:
    """Count the records that a reader gets of each epoch of a run."""
    ends = {p: [record.end.get(p, 0) for record in run] for p in run[-1].end}
    ranges = {p: (_find_start(run, p), end) for p, end in run[-1].end.items()}
    counts = {record.epoch: 0 for record in run}
    for partition, offset, _ in client.positions(run[0].topic, ranges, run[0].isolation):
        counts[run[bisect_right(ends[partition], offset)].epoch] += 1
    return counts


def _find_start(run: Sequence[EpochRecord], partition: int) -> int:
    return next((record.start.get(partition, 0) for record in run if partition in record.end), 0)


def _find_missing_of(client: CountableLog, record: EpochRecord) -> Iterator[MissingRecords]:
    ranges = _ranges_of(record)
    batches: dict[int, list[RecordBatch]] = {p: [] for p in ranges}
    for partition, offset, _ in client.positions(record.topic, ranges, "read_uncommitted"):  # aborted records too
        batches[partition].append(RecordBatch(offset, offset + 1, 1))
    for partition, offsets in sorted(ranges.items()):
        yield from find_missing_records(partition, batches[partition], offsets)


def _ranges_of(record: EpochRecord) -> dict[int, OffsetRange]:
    return {p: (record.start.get(p, 0), end) for p, end in record.end.items() if end > record.start.get(p, 0)}

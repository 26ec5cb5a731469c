"""Records that a log lost inside ranges that epochs have read: each epoch is counted again in the log as it is now.

An epoch records how many records it read. A reader under the same isolation gets the same number again for as long as
the log holds its range, whatever transactions are in it, so fewer of them are a loss. Compaction is what removes
records inside a log, and a compacted topic is rejected even before it has lost any.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import LogError
from cutover.lake.control import losses, versions
from cutover.lake.control.losses import find_incomplete_ranges
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import delta
from cutover.log import topic_partitions
from cutover.log.kafka import LogClient, Ranges
from cutover.log.mark import Mark
from cutover.log.marks import make_mark
from cutover.log.record_batches import (
    MissingRecords,
    OffsetRange,
    RecordBatch,
    find_missing_records,
    format_missing,
)
from cutover.records.classes import Class
from cutover.settings import Settings

MOST = 500_000
"""Offsets that are counted at a time: about half a second. The epochs of a longer log are counted in turns."""

ALL = 1 << 62
"""Offsets of a portion that holds every epoch."""

_NAMED = 2  # epochs that a message names
_LOOKS = 3  # at a log whose start moves while it is counted
_SINGLE = (Class.MALFORMED, Class.FILTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """Records of one epoch that the log no longer holds."""

    epoch: int
    topic: str
    expected: int  # records that the epoch read, at least
    found: int
    missing: tuple[MissingRecords, ...]  # offsets without a record, those of control records too

    @property
    def is_explained(self) -> bool:
        """Return whether offsets without a record account for all that is missing; else the epoch miscounted."""
        return self.expected - self.found <= sum(gap.missing for gap in self.missing)

    @property
    def text(self) -> str:
        """Return which epoch lacks how many records, and where."""
        lacking = self.expected - self.found  # control records left no record behind, and are none that the epoch read
        gaps = [gap._replace(missing=min(gap.missing, lacking)) for gap in self.missing]
        where = format_missing(self.topic, gaps) if gaps else "no offset is named"
        return f"Epoch {self.epoch} read {self.expected:,} records, the log holds {self.found:,} of them. {where}"


class CountableLog(Protocol):
    """What is asked of a log to count records; `LogClient` answers it."""

    def earliest(self, topic: str) -> dict[int, int]:
        """Return the first offset that each partition still holds."""

    def positions(self, topic: str, ranges: Ranges, isolation: str) -> Iterator[tuple[int, int, int]]:
        """Yield partition, offset and log timestamp of the records of ranges of several partitions."""


def refuse_compacted(client: LogClient, log: str) -> None:
    """Reject a log with a topic that is compacted.

    Raises:
        LogError: `cleanup.policy` of a topic includes `compact`, or no broker answers.
    """
    for topic in topic_partitions.topics_of(log):
        policy = client.config(topic).get("cleanup.policy", "delete")
        if "compact" in policy:
            msg = (
                f"Topic {topic}: expected cleanup.policy `delete`, got `{policy}`.\n"
                "Hint: compaction removes records that both paths have to read; set the policy to `delete` and start "
                "again: what is missing by then is named."
            )
            raise LogError(msg, runbook="LogDataLost")


def find_lost(
    client: CountableLog,
    records: Sequence[EpochRecord],
    losses: Iterable[Loss],
    window: WindowFn,
    *,
    turn: int = 0,
    most: int = MOST,
) -> tuple[LostRecords, ...]:
    """Count what the log holds of some epochs, and return those of which it holds less than they read.

    Args:
        client: Reads the log, which has the topic id of the epochs.
        records: Of all epochs of a version, by number.
        losses: Losses that were accepted: epochs in their ranges are not counted.
        window: The definition's.
        turn: Selects the portion of epochs that is counted, where there are more than `most` offsets.
        most: Offsets of a portion.

    Raises:
        LogError: No broker answers, or retention is faster than the count.
    """
    for look in range(_LOOKS):
        earliest = client.earliest(records[-1].topic) if records else {}
        portions = list_portions(select_countable(records, earliest, losses), most)
        if not portions:
            return ()
        try:
            return tuple(_count_portion(client, portions[turn % len(portions)], window))
        except LogError:
            if look == _LOOKS - 1 or client.earliest(records[-1].topic) == earliest:
                raise
    return ()


def find_complete_epochs(
    client: LogClient,
    records: Sequence[EpochRecord],
    missing: Sequence[MissingRecords],
    window: WindowFn | None,
) -> list[EpochRecord]:
    """Return the epochs over gaps of a log of which a reader still gets every record that they read.

    A log never gives a reader more of a range than it once did: aborted records stay hidden, and what is gone stays
    gone. So a reader that gets as many records of an epoch's range as the epoch read gets all of them, and whatever the
    range lacks was no record for a reader of this isolation: an aborted one, or the marker of a transaction. That holds
    if the log is the one that the epoch read, which the epoch's marks tell, and if the epoch's count is exact.

    Args:
        client: Reads the log, which has the topic id of the epochs.
        records: Of epochs of one version, by number; all were read under the isolation of the reader in question.
        missing: The gaps.
        window: That their definition had; None: not known, so only counts are exact by which each record is in one.

    Raises:
        LogError: No broker answers, or records leave the log while they are counted.
    """
    earliest = client.earliest(records[-1].topic) if records else {}
    chosen = [
        record
        for record in select_countable(records, earliest, ())
        if _is_count_exact(record, window) and _reads_any(record, missing)
    ]
    return [record for run in _list_runs(chosen) for record in _select_complete(client, run)]


def refuse_lost(  # noqa: PLR0913 -- what `find_lost` takes, and a name
    name: str,
    client: LogClient,
    records: Sequence[EpochRecord],
    losses: Iterable[Loss],
    window: WindowFn,
    *,
    turn: int = 0,
    most: int = MOST,
) -> None:
    """Reject a log that is compacted, or lost records which epochs have read.

    Args:
        name: Of the pipeline, for the message.
        client: See `find_lost`, also for the other arguments.
        records: Of all epochs of a version, by number.
        losses: Losses that were accepted.
        window: The definition's.
        turn: Selects the portion that is counted.
        most: Offsets of a portion.

    Raises:
        LogError: It is, or did; names the epochs and offsets. Or no broker answers.
    """
    if not records:
        return
    refuse_compacted(client, records[-1].topic)
    lost_records = find_lost(client, records, losses, window, turn=turn, most=most)
    if lost_records:
        raise make_lost_error(name, format_lost(lost_records))


def refuse_lost_in_log(settings: Settings, pipeline: Pipeline) -> None:
    """Reject the log of the version in force if it is compacted or lost records; every epoch is counted.

    Called behind a read of the log: what is lost does not come back.

    Raises:
        LogError: It is, or did; names the epochs and offsets. Or no broker answers.
    """
    version = versions.current(settings, pipeline)
    if version is None or not delta.exists(version.uri):
        return
    records, recorded = EpochLog(version.uri).records(), losses.up_to(settings, version)
    refuse_lost(pipeline.name, LogClient(settings), records, recorded, pipeline.window, most=ALL)


def format_lost(lost_records: Sequence[LostRecords]) -> str:
    """Return which epochs lack records, and where; the first ones are named. Without a full stop."""
    more = f". And {len(lost_records) - _NAMED:,} more epochs" if len(lost_records) > _NAMED else ""
    return ". ".join(lost_record.text for lost_record in lost_records[:_NAMED]) + more


def make_lost_error(name: str, text: str) -> LogError:
    """Return that a log has lost records inside a range; `text` says where."""
    msg = f"{text}.\nHint: compaction or a deletion removed records inside the log; nothing was written since. "
    msg += f"`cutover accept-loss {name}` shows what is lost, and how to go on."
    return LogError(msg, runbook="LogDataLost")


def select_countable(
    records: Sequence[EpochRecord], earliest: Mapping[int, int], losses: Iterable[Loss]
) -> list[EpochRecord]:
    """Return the epochs with data whose whole range the log should hold.

    Args:
        records: Of all epochs, by number.
        earliest: First offset that each partition holds.
        losses: Losses that were accepted.
    """
    lost = find_incomplete_ranges(losses, records[-1].topic_id) if records else {}

    def is_countable(record: EpochRecord) -> bool:
        read = [(p, record.start.get(p, 0), end) for p, end in record.end.items() if end > record.start.get(p, 0)]
        is_held = all(start >= earliest.get(p, 0) for p, start, _ in read)
        is_known = any(first < end and start < after for p, start, end in read for first, after in lost.get(p, ()))
        return bool(read) and is_held and not is_known

    return [record for record in records if is_countable(record)]


def list_portions(records: Sequence[EpochRecord], most: int) -> list[list[EpochRecord]]:
    """Divide epochs into portions of at most so many offsets, the newest epochs first; one epoch is never divided."""
    portions: list[list[EpochRecord]] = []
    room = 0
    for record in reversed(records):
        span = sum(end - record.start.get(p, 0) for p, end in record.end.items())
        if not portions or span > room:
            portions.append([])
            room = most
        portions[-1].append(record)
        room -= span
    return portions


def record_bounds(counts: Mapping[str, int], window: WindowFn) -> tuple[int, int]:
    """Return how few and how many records make these pairs; both are the same where all records fall into as many.

    Args:
        counts: Class to pairs.
        window: The definition's.
    """
    single = sum(counts.get(name, 0) for name in _SINGLE)
    windowed = sum(counts.values()) - single
    return single + -(-windowed // window.max_windows), single + windowed // window.min_windows


def _count_portion(client: CountableLog, portion: Sequence[EpochRecord], window: WindowFn) -> Iterator[LostRecords]:
    for run in _list_runs(sorted(portion, key=lambda record: record.epoch)):
        found = _count_run(client, run)
        for record in run:
            expected, _ = record_bounds(record.counts, window)
            if found[record.epoch] < expected:
                yield LostRecords(
                    epoch=record.epoch,
                    topic=record.topic,
                    expected=expected,
                    found=found[record.epoch],
                    missing=tuple(_find_missing_of(client, record)),
                )


def _is_count_exact(record: EpochRecord, window: WindowFn | None) -> bool:
    """Return whether the pairs of an epoch agree with the number of records that it says it read."""
    if window is None:
        return sum(record.counts.values()) == record.records
    least, most = record_bounds(record.counts, window)
    return least <= record.records <= most


def _reads_any(record: EpochRecord, missing: Iterable[MissingRecords]) -> bool:
    """Return whether an epoch read a range that a gap lies in, or lies partly in."""
    ranges = _ranges_of(record)
    spans = ((gap, ranges.get(gap.partition, (0, 0))) for gap in missing)
    return any(start < gap.next and gap.first < end for gap, (start, end) in spans)


def _select_complete(client: LogClient, run: Sequence[EpochRecord]) -> Iterator[EpochRecord]:
    """Yield the epochs of a run of which a reader gets as many records as they read, the marked ones among them."""
    ends = {p: [record.end.get(p, 0) for record in run] for p in run[-1].end}
    ranges = {p: (_find_start(run, p), end) for p, end in run[-1].end.items()}
    found = {record.epoch: 0 for record in run}
    unseen = {record.epoch: _collect_own_marks(record) for record in run}
    for message in client.messages(run[0].topic, ranges, run[0].isolation):
        partition, offset = topic_partitions.of_message(run[0].topic, message), topic_partitions.offset_of(message)
        epoch = run[bisect_right(ends[partition], offset)].epoch
        found[epoch] += 1
        mark = unseen[epoch].get((partition, offset))
        if mark is not None and mark == make_mark(message):
            del unseen[epoch][partition, offset]
    yield from (record for record in run if found[record.epoch] == record.records and not unseen[record.epoch])


def _collect_own_marks(record: EpochRecord) -> dict[tuple[int, int], Mark]:
    """Return the marks that an epoch made itself, by partition and offset: others are of the epochs before it."""
    ranges = _ranges_of(record)
    return {
        (partition, mark.offset): mark
        for partition, (start, end) in ranges.items()
        for mark in record.marks.get(partition, ())
        if start <= mark.offset < end
    }


def _list_runs(records: Sequence[EpochRecord]) -> list[list[EpochRecord]]:
    """Divide epochs, ascending, into runs that follow one another without a gap: each is read as one range."""
    runs: list[list[EpochRecord]] = []
    for record in records:
        before = runs[-1][-1] if runs else None
        follows = before is not None and all(record.start.get(p, 0) == end for p, end in before.end.items())
        if follows:
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def _count_run(client: CountableLog, run: Sequence[EpochRecord]) -> dict[int, int]:
    """Return how many records a reader gets of each epoch of a run."""
    ends = {p: [record.end.get(p, 0) for record in run] for p in run[-1].end}
    ranges = {p: (_find_start(run, p), end) for p, end in run[-1].end.items()}
    found = {record.epoch: 0 for record in run}
    for partition, offset, _ in client.positions(run[0].topic, ranges, run[0].isolation):
        found[run[bisect_right(ends[partition], offset)].epoch] += 1
    return found


def _find_start(run: Sequence[EpochRecord], partition: int) -> int:
    return next((record.start.get(partition, 0) for record in run if partition in record.end), 0)


def _find_missing_of(client: CountableLog, record: EpochRecord) -> Iterator[MissingRecords]:
    ranges = _ranges_of(record)
    batches: dict[int, list[RecordBatch]] = {p: [] for p in ranges}
    for partition, offset, _ in client.positions(record.topic, ranges, "read_uncommitted"):  # aborted ones are there
        batches[partition].append(RecordBatch(offset, offset + 1, 1))
    for partition, wanted in sorted(ranges.items()):
        yield from find_missing_records(partition, batches[partition], wanted)


def _ranges_of(record: EpochRecord) -> dict[int, OffsetRange]:
    return {p: (record.start.get(p, 0), end) for p, end in record.end.items() if end > record.start.get(p, 0)}

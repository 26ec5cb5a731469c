"""Account for every offset of a range that was read: by a record, a control record, an aborted one or a recorded loss.

If a range has as many records as offsets, nothing is missing. Fewer records prove nothing, since transactions take
offsets too: then the headers of the log's batches are read (`cutover.log.record_batches`). If the batches hold fewer
records than offsets, log compaction may have removed aborted records only, which no reader receives: an epoch that read
the range counted its records, and if a reader still gets all of them, none is lost
(`lost_records.find_complete_epochs`).

Headers and epochs are read after the records. A log never regains lost records, so if the log is complete now, it was
complete when the records were read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutover.definition.windows.window_fn import WindowFn
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.tables import delta
from cutover.log.cut import LogId
from cutover.log.kafka import LogClient
from cutover.log.record_batches import (
    MissingRecords,
    OffsetRange,
    exclude_ranges,
    exclude_recorded,
    find_missing_records,
    format_missing,
)
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading.batch_headers import open_reader
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = Mapping[int, OffsetRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Log that a path reads, and the stream version for which it is read."""

    lake: PipelineLake
    version: Version
    client: LogClient
    log_id: LogId


def count_offsets(reads: Sequence[Offsets]) -> int:
    """Return the number of offsets in disjoint ranges."""
    return sum(end - start for offsets in reads for start, end in offsets.values())


def find_missing_ranges(
    session: "SparkSession", settings: Settings, client: LogClient, log: str, reads: Sequence[Offsets]
) -> tuple[MissingRecords, ...]:
    """Return the offsets of some ranges that hold neither a record nor a control record.

    Args:
        session: Spark session whose Kafka client reads the headers.
        settings: Connection of the log.
        client: Finds the leaders.
        log: Name of the log.
        reads: Disjoint ranges by partition.

    Raises:
        LogError: No broker answers, or the log no longer holds the start of a range.
    """
    with open_reader(session, settings, client, log) as reader:
        return tuple(
            gap
            for offsets in reads
            for partition, (start, end) in sorted(offsets.items())
            for gap in find_missing_records(partition, reader.read(partition, start, end), (start, end))
        )


def find_unexplained(session: "SparkSession", log: ReadLog, reads: Sequence[Offsets]) -> tuple[MissingRecords, ...]:
    """Return the offsets of some ranges that hold no record, unless a recorded loss or a complete epoch explains them.

    Args:
        session: Spark session whose Kafka client reads the headers.
        log: The log.
        reads: Disjoint ranges by partition.

    Raises:
        LakeError: The table of an epoch log, or the table of losses, cannot be read.
        LogError: No broker answers, or the log no longer holds the start of a range.
    """
    missing = find_missing_ranges(session, log.lake.settings, log.client, log.log_id.topic, reads)
    if missing:
        accepted = losses.list_up_to(log.lake.settings, log.version)
        missing = exclude_recorded(missing, losses.find_incomplete_ranges(accepted, log.log_id.topic_id))
    for records, window in _list_epochs(log) if missing else ():
        complete = lost_records.find_complete_epochs(log.client, records, missing, window)
        missing = exclude_ranges(missing, _collect_ranges(complete))
    return missing


def check_complete(
    session: "SparkSession", log: ReadLog, counts: Iterable[tuple[Sequence[Offsets], int | None]]
) -> None:
    """Raise if records of ranges that were read are missing from the log.

    Args:
        session: Spark session that read the records.
        log: The log.
        counts: For each read, its disjoint ranges by partition, and the number of records that the reader got. None:
            unknown.

    Raises:
        LakeError: As `find_unexplained`.
        LogError: Records are missing that no recorded loss names, or no broker answers.
    """
    for reads, records in counts:
        missing = () if records == count_offsets(reads) else find_unexplained(session, log, reads)
        if missing:
            raise lost_records.make_lost_error(log.lake.name, format_missing(log.log_id.topic, missing))


def _list_epochs(log: ReadLog) -> Iterator[tuple[list[EpochRecord], WindowFn | None]]:
    """Yield the epochs of each version that read this log under the current isolation, with its window if known.

    The version of `log` comes first. Versions of earlier definitions have read the same records.
    """
    pipeline, current = log.lake.pipeline, (log.version.result_fingerprint, log.version.number)
    registrations = versions.read_registrations(log.lake.settings, pipeline.name)
    places = {(row.fingerprint, row.number) for row in registrations if not row.deleted}
    for fingerprint, number in sorted(places, key=lambda place: (place != current, place[0] != current[0], place)):
        uri = log.lake.stream_uri(number, fingerprint=fingerprint)
        records = EpochLog(uri).records() if delta.exists(uri) else []
        source = (log.log_id.topic_id, pipeline.source.isolation)
        window = pipeline.window if fingerprint == current[0] else None
        yield [record for record in records if (record.topic_id, record.isolation) == source], window


def _collect_ranges(records: Iterable[EpochRecord]) -> dict[int, list[OffsetRange]]:
    """Return the offset ranges that epochs have read, by partition."""
    ranges: dict[int, list[OffsetRange]] = {}
    for record in records:
        for partition, end in record.end.items():
            ranges.setdefault(partition, []).append((record.start.get(partition, 0), end))
    return ranges

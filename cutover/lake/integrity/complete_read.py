"""Account for every offset of a range that was read: by a record, a control record, an aborted one or a recorded loss.

As many records as offsets prove that nothing is missing. Fewer prove nothing, since transactions take offsets too: then
the headers of the log's batches tell (`cutover.log.record_batches`). They are read after the records. What a log has
lost does not come back, so if the log is complete now, it was complete when the records were read.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cutover.lake.control.losses import Loss, find_incomplete_ranges
from cutover.lake.integrity.lost_records import make_lost_error
from cutover.log.kafka import LogClient
from cutover.log.record_batches import (
    MissingRecords,
    OffsetRange,
    exclude_recorded,
    find_missing_records,
    format_missing,
)
from cutover.records.reading.batch_headers import open_reader
from cutover.records.reading.counted import CountedRead
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = Mapping[int, OffsetRange]


def count_offsets(reads: Sequence[Offsets]) -> int:
    """Return the number of offsets in disjoint ranges."""
    return sum(end - start for offsets in reads for start, end in offsets.values())


def find_missing(
    session: "SparkSession", settings: Settings, client: LogClient, log: str, reads: Sequence[Offsets]
) -> tuple[MissingRecords, ...]:
    """Return the offsets of some ranges that hold neither a record nor a control record.

    Args:
        session: Whose Kafka client reads the headers.
        settings: How to reach the log.
        client: Asks for the leaders.
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


def check_complete(  # noqa: PLR0913 -- what was read, from where, and what is known to be missing
    session: "SparkSession",
    settings: Settings,
    client: LogClient,
    *,
    name: str,
    log: str,
    topic_id: str,
    reads: Sequence[Offsets],
    records: int | None,
    recorded: Sequence[Loss],
) -> None:
    """Raise if records of a range that was read are missing from the log.

    Args:
        session: That has read the records.
        settings: How to reach the log.
        client: Asks for the leaders.
        name: Of the pipeline, for the message.
        log: Name of the log.
        topic_id: Of the log.
        reads: Disjoint ranges by partition that were read.
        records: Number of records that the reader got; None: not known.
        recorded: Losses that were accepted.

    Raises:
        LogError: Records are missing that no recorded loss names, or no broker answers.
    """
    if records == count_offsets(reads):
        return
    missing = find_missing(session, settings, client, log, reads)
    unrecorded = exclude_recorded(missing, find_incomplete_ranges(recorded, topic_id))
    if unrecorded:
        raise make_lost_error(name, format_missing(log, unrecorded))


def check_reads(  # noqa: PLR0913 -- as `check_complete`
    session: "SparkSession",
    settings: Settings,
    client: LogClient,
    *,
    name: str,
    log: str,
    topic_id: str,
    counted: Sequence[CountedRead],
    recorded: Sequence[Loss],
) -> None:
    """Raise if records of a range are missing that Spark has read; arguments as those of `check_complete`.

    Args:
        session: That has read the records.
        settings: How to reach the log.
        client: Asks for the leaders.
        name: Of the pipeline, for the message.
        log: Name of the log.
        topic_id: Of the log.
        counted: Reads that were evaluated; of one that was not the headers tell.
        recorded: Losses that were accepted.

    Raises:
        LogError: Records are missing that no recorded loss names, or no broker answers.
    """
    for read in counted:
        check_complete(
            session,
            settings,
            client,
            name=name,
            log=log,
            topic_id=topic_id,
            reads=read.reads,
            records=read.records,
            recorded=recorded,
        )

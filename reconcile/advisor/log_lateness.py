"""Delays of a log's records by partition and value of the key, both when appended and when read.

The log is read once by Spark; the log timestamp shows when each record was appended, the epochs show when it was read.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.read_speed import LOAD
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import name_log
from cutover.reconcile.advisor import lateness_tables
from cutover.reconcile.advisor.epochs_read import list_reading_epochs
from cutover.reconcile.advisor.log_pairs import LogReading, load_pairs, trace_real_speed
from cutover.reconcile.advisor.real_speed import find_pace
from cutover.reconcile.result.timeliness import LateShares, LogLateness
from cutover.records.classes import Class
from cutover.settings import Settings
from cutover.timestamps import format_micros, to_micros


def measure_log_lateness(settings: Settings, pipeline: Pipeline, clock: Clock) -> LogLateness:
    """Measure the delays of the records that the current version has read and the log still holds.

    Raises:
        LakeError: No epoch was committed, or epochs were read under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    version = versions.current(settings, pipeline)
    records = list_reading_epochs(settings, pipeline, version)
    if version is None:  # then there was no epoch, and that was reported
        raise LakeError(pipeline.name)
    earliest = LogClient(settings).earliest(name_log(pipeline))
    spark = session(settings, app=f"cutover lateness {pipeline.name}")
    reading = LogReading(
        spark=spark, settings=settings, pipeline=pipeline, rejoin=Rejoin(settings, pipeline), records=records
    )
    with queries.connect(queries.make_reader_limits(settings)) as connection:
        load_pairs(connection, reading, earliest)
        _drop_duplicates(connection, pipeline, version, records[-1].epoch)
        pace = find_pace(trace_real_speed(connection, pipeline))
        lateness_tables.create_tables(connection, pipeline, _list_reads(pipeline, records))
        shares = lateness_tables.count_late(connection, pace)
        deleted_records = _count_gone(records, earliest)
        return LogLateness(
            pipeline=pipeline.name,
            at=format_micros(to_micros(clock.now())) or "",
            result_fingerprint=result_fingerprint(pipeline),
            lateness_fingerprint=records[-1].lateness_fingerprint,
            version=version.number,
            epoch=records[-1].epoch,
            epochs=len(records),
            records=lateness_tables.count_windowed_records(connection),
            lateness=lateness_tables.measure_quantiles(connection),
            histogram=lateness_tables.count_by_lateness(connection),
            shares=shares,
            segments=lateness_tables.list_segments(connection, pipeline.key),
            sources=lateness_tables.list_sources(connection, pipeline.key),
            notes=tuple(_make_notes(shares, deleted_records)),
            gone=deleted_records,
        )


def _drop_duplicates(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, version: Version, epoch: int) -> None:
    """Exclude records that the stream classified as duplicates from all windows; they still move the watermark."""
    if pipeline.source.record_id is None:
        return
    EpochLog(version.uri).relation(connection, "stream_rows", epoch=epoch)
    rows = f"stream_rows WHERE _class = '{Class.DUPLICATE}' AND _positions IS NOT NULL"
    positions = f"SELECT unnest(_positions) AS at FROM {rows}"
    twins = f'SELECT at."partition", at."offset" FROM ({positions})'
    connection.execute(f"UPDATE pairs SET __ends = NULL WHERE (__partition, __offset) IN ({twins})")


def _list_reads(pipeline: Pipeline, records: Sequence[EpochRecord]) -> pa.Table:
    """Return the event time that decided whether the records from an offset on were late when they were read."""
    ahead = pipeline.lateness.out_of_orderness_micros
    rows = [
        {
            "__partition": partition,
            "__first": record.start.get(partition, 0),
            "__read": None if record.watermark_before is None else record.watermark_before + ahead,
        }
        for record in records
        for partition in record.end_moved
    ]
    fields = [pa.field(name, pa.int64()) for name in ("__partition", "__first", "__read")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _count_gone(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> dict[str, int]:
    start_offsets: dict[int, int] = {}
    for record in records:
        for partition, start in record.start.items():
            start_offsets.setdefault(partition, start)
    deleted_records = {partition: earliest.get(partition, start) - start for partition, start in start_offsets.items()}
    return {str(partition): count for partition, count in sorted(deleted_records.items()) if count > 0}


def _make_notes(shares: LateShares, deleted_records: Mapping[str, int]) -> list[str]:
    notes = ["At real speed only the records appended before a record decide whether it is late."]
    if shares.pace is None:
        notes.append("All log timestamps are equal: they show neither the order of the records nor how late they were.")
    elif shares.pace > LOAD:
        fast = f"Event time passed {shares.pace:,.0f} times faster than log time"
        notes.append(f"{fast}: these log timestamps are those of a load, and so is the share at real speed.")
    if deleted_records:
        text = f"{sum(deleted_records.values()):,} of the offsets that the epochs read are no longer in the log"
        notes.append(f"{text}: the figures cover the others.")
    return notes

"""How late the records of a log were, by partition and value of the key: as they were appended, and as they were read.

The log is read once by Spark; when each record was appended its log timestamp tells, when it was read the epochs do.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from cutover.clock import Clock
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import LakeError, LogError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables.schemas import arrow_type, duckdb_type
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of
from cutover.quoting import identifier
from cutover.reconcile.advisor import lateness_tables
from cutover.reconcile.advisor.epochs_read import join_reads, list_reading_epochs, split_epochs
from cutover.reconcile.advisor.predict import Micros
from cutover.reconcile.advisor.real_speed import UNKNOWN, Appended, find_append_times, find_reached
from cutover.reconcile.result.timeliness import LateShares, LogLateness
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.reading.scan import Offsets, read
from cutover.settings import Settings
from cutover.timestamps import format_micros, to_micros

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD = 2.0
"""Event time that goes by so many times faster than log time was loaded, not lived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogReading:
    """What is read, and from which epochs."""

    spark: "SparkSession"
    settings: Settings
    pipeline: Pipeline
    rejoin: Rejoin
    records: Sequence[EpochRecord]


def measure_log_lateness(settings: Settings, pipeline: Pipeline, clock: Clock) -> LogLateness:
    """Read what the epochs of the version in force have read, as far as the log still holds it.

    Raises:
        LakeError: No epoch was committed, or epochs were judged under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    version = versions.current(settings, pipeline)
    records = list_reading_epochs(pipeline, version)
    if version is None:  # then there was no epoch, and that was said
        raise LakeError(pipeline.name)
    earliest = LogClient(settings).earliest(log_of(pipeline))
    spark = session(settings, app=f"cutover lateness {pipeline.name}")
    reading = _LogReading(
        spark=spark, settings=settings, pipeline=pipeline, rejoin=Rejoin(settings, pipeline), records=records
    )
    with queries.connect(queries.reading(settings)) as connection:
        _load_pairs(connection, reading, earliest)
        _drop_duplicates(connection, pipeline, version, records[-1].epoch)
        pace = _judge_records(connection, pipeline, records)
        shares = lateness_tables.count_late(connection, pace)
        gone = _count_gone(records, earliest)
        return LogLateness(
            pipeline=pipeline.name,
            at=format_micros(to_micros(clock.now())) or "",
            result_fingerprint=result_fingerprint(pipeline),
            lateness_fingerprint=records[-1].lateness_fingerprint,
            version=version.number,
            epoch=records[-1].epoch,
            epochs=len(records),
            records=lateness_tables.count_records(connection),
            lateness=lateness_tables.measure_quantiles(connection),
            histogram=lateness_tables.count_by_lateness(connection),
            shares=shares,
            segments=lateness_tables.list_segments(connection, pipeline.key),
            sources=lateness_tables.list_sources(connection, pipeline.key),
            notes=tuple(_make_notes(shares, gone)),
            gone=gone,
        )


def _load_pairs(connection: duckdb.DuckDBPyConnection, reading: _LogReading, earliest: Mapping[int, int]) -> None:
    """Make `pairs`: `__partition`, `__offset`, `__log`, `__event`, `__ends` and the key.

    One row for each window of each record; one with a null end for a record that counts in none. An event time is null
    where it does not move the watermark.
    """
    kinds = compile_pipeline(reading.pipeline).key_types
    keys = "".join(f", {identifier(name)} {duckdb_type(arrow_type(kind))}" for name, kind in kinds.items())
    columns = "__partition INT, __offset BIGINT, __log BIGINT, __event BIGINT, __ends BIGINT"
    connection.execute(f"CREATE TEMP TABLE pairs ({columns}{keys})")
    names = ", ".join(map(identifier, ("__partition", "__offset", "__log", "__event", "__ends", *reading.pipeline.key)))
    for chunk in split_epochs(reading.records, earliest):
        connection.register("chunk", _read_rows(reading, join_reads(chunk)))
        connection.execute(f"INSERT INTO pairs SELECT {names} FROM chunk")
        connection.unregister("chunk")


def _read_rows(reading: _LogReading, reads: Sequence[Offsets]) -> pa.Table:
    pipeline, rejoin = reading.pipeline, reading.rejoin
    spans = rejoin.resolve_versions(rejoin.collect_recorded(reading.records), tuple(reads))
    raw = read(reading.spark, reading.settings, pipeline, tuple(reads))
    rows = classify_records(
        parse_records(raw, pipeline, rejoin.frames(reading.spark, spans)), pipeline, watermark_micros=None
    )
    counts = f"_class = '{Class.ACCEPTED}'"
    moves = f"_class NOT IN ('{Class.MALFORMED}', '{Class.FUTURE}')"
    return rows.selectExpr(
        "_partition AS __partition",
        "_offset AS __offset",
        "unix_micros(_log_time) AS __log",
        f"IF({moves}, unix_micros(_event_time), NULL) AS __event",
        f"IF({counts}, unix_micros(window_end), NULL) AS __ends",
        *(f"IF({counts}, `{name}`, NULL) AS `{name}`" for name in pipeline.key),
    ).toArrow()


def _drop_duplicates(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, version: Version, epoch: int) -> None:
    """Let what the stream found to be duplicates count in no window; they still move the watermark."""
    if pipeline.source.record_id is None:
        return
    EpochLog(version.uri).relation(connection, "stream_rows", epoch=epoch)
    rows = f"stream_rows WHERE _class = '{Class.DUPLICATE}' AND _positions IS NOT NULL"
    listed = f"SELECT unnest(_positions) AS at FROM {rows}"
    twins = f'SELECT at."partition", at."offset" FROM ({listed})'
    connection.execute(f"UPDATE pairs SET __ends = NULL WHERE (__partition, __offset) IN ({twins})")


def _judge_records(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord]
) -> float | None:
    """Make the tables of `lateness_tables`, and return how much event time went by for each second of log time.

    Raises:
        LogError: The log holds nothing of what was read.
    """
    columns = "__partition, __offset, any_value(__log) AS l, coalesce(any_value(__event), ?) AS e"
    query = f"SELECT {columns} FROM pairs GROUP BY __partition, __offset ORDER BY __partition, __offset"
    found = connection.execute(query, [UNKNOWN]).fetchnumpy()
    if not len(found["l"]):
        msg = f"Log of `{pipeline.name}`: expected records that its epochs have read, it holds none of them."
        raise LogError(msg + "\nHint: lateness is told from what the log still holds.")
    appended = Appended(
        partitions=_column(found["__partition"]), log_times=_column(found["l"]), events=_column(found["e"])
    )
    reached = find_reached(appended, pipeline.lateness.idle_after_micros)
    positions = {"__partition": appended.partitions, "__offset": _column(found["__offset"]), "__reached": reached}
    lateness_tables.make(connection, pipeline, pa.table(positions), _list_reads(pipeline, records))
    return _find_pace(appended)


def _column(values: Any) -> Micros:
    return np.asarray(values, np.int64)


def _list_reads(pipeline: Pipeline, records: Sequence[EpochRecord]) -> pa.Table:
    """Return by which event time the records from an offset on were judged when they were read."""
    ahead = pipeline.lateness.out_of_orderness_micros
    rows = [
        {
            "__partition": partition,
            "__first": one.start.get(partition, 0),
            "__read": None if one.watermark_before is None else one.watermark_before + ahead,
        }
        for one in records
        for partition in one.end_moved
    ]
    fields = [pa.field(name, pa.int64()) for name in ("__partition", "__first", "__read")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _find_pace(appended: Appended) -> float | None:
    """Return event time over log time, both without the first and the last hundredth: one wrong clock is no pace."""
    events = appended.events[appended.events > UNKNOWN]
    if not len(events):
        return None
    logged, lived = (
        np.subtract(*np.quantile(of, [0.99, 0.01], method="inverted_cdf"))
        for of in (find_append_times(appended), events)
    )
    return float(lived / logged) if logged > 0 else None


def _count_gone(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> dict[str, int]:
    first: dict[int, int] = {}
    for one in records:
        for partition, start in one.start.items():
            first.setdefault(partition, start)
    lost = {partition: earliest.get(partition, start) - start for partition, start in first.items()}
    return {str(partition): count for partition, count in sorted(lost.items()) if count > 0}


def _make_notes(shares: LateShares, gone: Mapping[str, int]) -> list[str]:
    notes = ["At real speed each record is judged by what was appended before it; epochs of seconds find fewer late."]
    if shares.pace is None:
        notes.append("All log timestamps are one: they do not tell in which order records came, nor how late.")
    elif shares.pace > LOAD:
        fast = f"Event time went by {shares.pace:,.0f} times faster than log time"
        notes.append(f"{fast}: these log timestamps are those of a load, and so is the share at real speed.")
    if gone:
        text = f"{sum(gone.values()):,} of the offsets that the epochs read are no longer in the log"
        notes.append(f"{text}: the figures are of the rest.")
    return notes

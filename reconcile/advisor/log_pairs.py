"""Records of a log with their windows, read once by Spark: input of the advisor and of the lateness of a log.

`pairs` has one row for each window of each record: `__partition`, `__offset`, `__log` and `__event` (microseconds),
`__starts` and `__ends` of the window, the key, and `__epoch` that read the record. A record that counts in no window
has one row with a null end. An event time is null where it does not move the watermark.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LogError
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.integrity import lost_records
from cutover.lake.tables.schemas import arrow_type, duckdb_type
from cutover.quoting import identifier
from cutover.reconcile.advisor.epochs_read import Chunk, join_reads, split_epochs
from cutover.reconcile.advisor.predict import Micros
from cutover.reconcile.advisor.real_speed import UNKNOWN, Appended, compute_watermarks
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.reading import segments
from cutover.records.reading.scan import Offsets, read_records
from cutover.records.reading.segments import OffsetSpan
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RANGES = pa.schema([("__partition", pa.int32()), *((name, pa.int64()) for name in ("__first", "__next", "__epoch"))])
"""Offsets of a partition that an epoch read: `[first, next)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """Records to read, and the epochs that read them."""

    spark: "SparkSession"
    settings: Settings
    pipeline: Pipeline
    rejoin: Rejoin
    records: Sequence[EpochRecord]


def load_pairs(connection: duckdb.DuckDBPyConnection, reading: LogReading, earliest: Mapping[int, int]) -> int:
    """Create `pairs`, and return the number of offsets that were read.

    Args:
        connection: Where the table is created.
        reading: The epochs whose records are read.
        earliest: First offset of each partition that the log still holds.

    Raises:
        LogError: The log holds none of the records that the epochs read, lost some of them, or does not answer.
    """
    kinds = compile_pipeline(reading.pipeline).key_types
    keys = "".join(f", {identifier(name)} {duckdb_type(arrow_type(kind))}" for name, kind in kinds.items())
    columns = "__partition INT, __offset BIGINT, __log BIGINT, __event BIGINT, __starts BIGINT, __ends BIGINT"
    connection.execute(f"CREATE TEMP TABLE pairs ({columns}{keys}, __epoch BIGINT)")
    columns_of_pairs = ("__partition", "__offset", "__log", "__event", "__starts", "__ends", *reading.pipeline.key)
    names = ", ".join(f"c.{identifier(name)}" for name in columns_of_pairs)
    count = 0
    for chunk in split_epochs(reading.records, earliest):
        count += sum(end - start for _, offsets in chunk for start, end in offsets.values())
        connection.register("chunk", _read_rows(reading, join_reads(chunk)))
        connection.register("ranges", _list_ranges(chunk))
        connection.execute(
            f"INSERT INTO pairs SELECT {names}, r.__epoch FROM chunk c ASOF JOIN ranges r"
            " ON c.__partition = r.__partition AND c.__offset >= r.__first WHERE c.__offset < r.__next"
        )
        connection.unregister("chunk")
        connection.unregister("ranges")
    if not count:
        msg = f"Log of `{reading.pipeline.name}`: expected records that its epochs have read, it holds none of them."
        raise LogError(msg + "\nHint: lateness is computed from the records that the log still holds.")
    lost_records.check_log_of_version(reading.settings, reading.pipeline)
    return count


def _list_ranges(chunk: Chunk) -> pa.Table:
    rows = [
        {"__partition": partition, "__first": start, "__next": end, "__epoch": record.epoch}
        for record, offsets in chunk
        for partition, (start, end) in offsets.items()
    ]
    return pa.Table.from_pylist(rows, schema=_RANGES)


def _read_rows(reading: LogReading, reads: Sequence[Offsets]) -> pa.Table:
    """Read the rows of `pairs` in some ranges of offsets, and possibly of offsets between them."""
    pipeline, rejoin = reading.pipeline, reading.rejoin
    # A separate read for each of hundreds of epochs would cost Spark far more than what lies between them.
    spread = (OffsetSpan(partition=p, first_offset=a, last_offset=b - 1) for one in reads for p, (a, b) in one.items())
    whole = segments.plan_reads(spread)
    spans = rejoin.resolve_versions(rejoin.collect_recorded(reading.records), whole)
    raw = read_records(reading.spark, reading.settings, pipeline, whole)
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
        f"IF({counts}, unix_micros(window_start), NULL) AS __starts",
        f"IF({counts}, unix_micros(window_end), NULL) AS __ends",
        *(f"IF({counts}, `{name}`, NULL) AS `{name}`" for name in pipeline.key),
    ).toArrow()


def trace_real_speed(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> Appended:
    """Create `reached`: the event time reached when each record of `pairs` was appended; return the records.

    `reached` has `__partition`, `__offset`, and `__reached` in microseconds, UNKNOWN if there was none.
    """
    columns = "__partition, __offset, any_value(__log) AS l, coalesce(any_value(__event), ?) AS e"
    query = f"SELECT {columns} FROM pairs GROUP BY __partition, __offset ORDER BY __partition, __offset"
    columns_by_name = connection.execute(query, [UNKNOWN]).fetchnumpy()
    appended = Appended(
        partitions=_column(columns_by_name["__partition"]),
        log_times=_column(columns_by_name["l"]),
        events=_column(columns_by_name["e"]),
    )
    event_times = compute_watermarks(appended, pipeline.lateness.idle_after_micros)
    positions = {
        "__partition": appended.partitions,
        "__offset": _column(columns_by_name["__offset"]),
        "__reached": event_times,
    }
    connection.register("reached", pa.table(positions))
    return appended


def _column(values: Any) -> Micros:
    return np.asarray(values, np.int64)

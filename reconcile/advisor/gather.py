"""Records of a log with their windows, read once by Spark, and their delays, folded in DuckDB.

`pairs` has one row for each window of each record: `__partition`, `__offset`, `__log` and `__event` (microseconds),
`__starts` and `__ends` of the window, the key, and `__epoch` that read the record. A record that counts in no window
has one row with a null end. An event time is null where it does not move the watermark. Delays are those of the records
as they were appended and as they were read, of those epochs whose records the log retains.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.read_speed import ReadSpeed, measure_read_speed, tells_real_speed
from cutover.lake.integrity import lost_records
from cutover.lake.tables.schemas import map_arrow_type_to_duckdb, map_spark_type_to_arrow
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition_number, name_log
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.advisor.predict import (
    ALWAYS,
    UNKNOWN,
    Appended,
    Delays,
    Micros,
    RecordDelays,
    compute_watermarks,
    find_pace,
    find_unit,
)
from cutover.reconcile.result.parts import Culprit
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.fold import SESSION, group_sessions_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.reading import scan
from cutover.records.reading.scan import Offsets, OffsetSpan, read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_RANGES = pa.schema([("__partition", pa.int32()), *((name, pa.int64()) for name in ("__first", "__next", "__epoch"))])
"""Offsets of a partition that an epoch read: `[first, next)`."""


CHUNK = 500_000
"""Offsets that are read together; an epoch is never split."""


def list_reading_epochs(lake: PipelineLake, version: Version | None) -> list[EpochRecord]:
    """Return the epochs of a version that read records of the topic that its newest one read, in order.

    Raises:
        LakeError: There are none, or they were read under several settings of lateness.
    """
    records = [] if version is None else [record for record in EpochLog(version.uri).records() if record.records]
    if not records:
        raise no_epochs(lake.pipeline)
    if len({record.lateness_fingerprint for record in records}) > 1:
        msg = f"`{lake.name}`: expected epochs under one setting of lateness, got several."
        replay = f"`cutover replay {lake.name} --into {versions.read_next_version_number(lake)}`"
        raise LakeError(msg + f"\nHint: {replay} reads the log again under the one in force.")
    return [record for record in records if record.topic_id == records[-1].topic_id]


def no_epochs(pipeline: Pipeline) -> LakeError:
    """Make the error for a pipeline that has read nothing yet, with the command that reads."""
    msg = f"`{pipeline.name}`: expected epochs that have read records, found none."
    return LakeError(msg + f"\nHint: `{pipeline.driver_command} --drain` reads what the log holds.")


def list_epochs_between(version: Version, first_epoch: int, last_epoch: int) -> list[EpochRecord]:
    """List the epochs of a version in a range, including those without records, but not one that closes all windows."""
    return [
        record
        for record in EpochLog(version.uri).records()
        if first_epoch <= record.epoch <= last_epoch and not record.final
    ]


Chunk = list[tuple[EpochRecord, Offsets]]


def split_epochs(records: Sequence[EpochRecord], earliest: Mapping[int, int]) -> Iterator[Chunk]:
    """Yield epochs with the offsets that the log still holds, in groups that fit in memory."""
    chunk, size = Chunk(), 0
    for record in records:
        starts = {p: max(start, earliest.get(p, start)) for p, start in record.start.items()}
        offsets = {p: (starts[p], end) for p, end in record.end.items() if starts.get(p, end) < end}
        if not offsets:
            continue
        chunk.append((record, offsets))
        size += sum(end - start for start, end in offsets.values())
        if size >= CHUNK:
            yield chunk
            chunk, size = Chunk(), 0
    if chunk:
        yield chunk


def join_reads(chunk: Chunk) -> tuple[Offsets, ...]:
    """Merge the offsets of a chunk into as few reads as possible: adjacent ranges of epochs become one."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for _, offsets in chunk:
        for partition, (start, end) in offsets.items():
            partition_spans = spans.setdefault(partition, [])
            if partition_spans and partition_spans[-1][1] == start:
                partition_spans[-1] = (partition_spans[-1][0], end)
            else:
                partition_spans.append((start, end))
    count = max(map(len, spans.values()), default=0)
    return tuple(
        {p: partition_spans[turn] for p, partition_spans in sorted(spans.items()) if turn < len(partition_spans)}
        for turn in range(count)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """Records to read, and the epochs that read them."""

    spark: "SparkSession"
    lake: PipelineLake
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
    pipeline = reading.lake.pipeline
    kinds = compile_pipeline(pipeline).key_types
    keys = "".join(
        f", {identifier(name)} {map_arrow_type_to_duckdb(map_spark_type_to_arrow(kind))}"
        for name, kind in kinds.items()
    )
    columns = "__partition INT, __offset BIGINT, __log BIGINT, __event BIGINT, __starts BIGINT, __ends BIGINT"
    connection.execute(f"CREATE TEMP TABLE pairs ({columns}{keys}, __epoch BIGINT)")
    columns_of_pairs = ("__partition", "__offset", "__log", "__event", "__starts", "__ends", *pipeline.key)
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
        msg = f"Log of `{pipeline.name}`: expected records that its epochs have read, it holds none of them."
        raise LogError(msg + "\nHint: lateness is computed from the records that the log still holds.")
    lost_records.check_log_of_version(reading.lake)
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
    pipeline, rejoin = reading.lake.pipeline, reading.rejoin
    # A separate read for each of hundreds of epochs would cost Spark far more than what lies between them.
    spread = (OffsetSpan(partition=p, first_offset=a, last_offset=b - 1) for one in reads for p, (a, b) in one.items())
    whole = scan.plan_reads(spread)
    spans = rejoin.resolve_versions(rejoin.collect_recorded(reading.records), whole)
    raw = read_records(reading.spark, reading.lake, whole)
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
        partitions=_pair_column(columns_by_name["__partition"]),
        log_times=_pair_column(columns_by_name["l"]),
        events=_pair_column(columns_by_name["e"]),
    )
    event_times = compute_watermarks(appended, pipeline.lateness.idle_after_micros)
    positions = {
        "__partition": appended.partitions,
        "__offset": _pair_column(columns_by_name["__offset"]),
        "__reached": event_times,
    }
    connection.register("reached", pa.table(positions))
    return appended


def _pair_column(values: Any) -> Micros:
    return np.asarray(values, np.int64)


LATE_AT_LEAST = 5
"""Smallest number of late records for which a partition or a key is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredDelays:
    """Delays of records, with the partitions and keys of the late ones."""

    delays: Delays
    epochs: int  # that have read records
    newest_epoch: int
    version: int  # n of stream-<n>
    records: int  # offsets read
    read_speed: ReadSpeed
    log_pace: float | None  # event time per second of log time
    partitions: tuple[Culprit, ...]  # all of them
    keys: tuple[Culprit, ...]


def gather_delays(lake: PipelineLake) -> GatheredDelays:
    """Read the records of the epochs that the log still holds, and compute their delays.

    Raises:
        DefinitionError: The source has record ids, so records are also late because their ids are forgotten.
        LakeError: No epoch was committed, or epochs were judged under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    settings, pipeline = lake.settings, lake.pipeline
    version = _find_version(lake)
    records = list_reading_epochs(lake, version)
    earliest = LogClient(settings).earliest(name_log(pipeline))
    spark = session(settings, app=f"cutover advise {pipeline.name}")
    reading = LogReading(spark=spark, lake=lake, rejoin=Rejoin(lake), records=records)
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        count = load_pairs(connection, reading, earliest)
        read_speed = measure_read_speed(records)
        pace = find_pace(read_speed, trace_real_speed(connection, pipeline))
        make_delays(connection, pipeline, records)
        total = pipeline.lateness.out_of_orderness_micros + pipeline.lateness.allowed_micros
        epochs = list_epochs_between(version, records[0].epoch, records[-1].epoch)
        return GatheredDelays(
            delays=collect_delays(
                connection,
                pipeline,
                epochs,
                has_real=tells_real_speed(pace),
                is_live=read_speed.is_replay is False,
            ),
            read_speed=read_speed,
            log_pace=pace,
            epochs=len(records),
            newest_epoch=records[-1].epoch,
            version=version.number,
            records=count,
            partitions=_find_culprits(connection, ("_partition",), total),
            keys=_find_culprits(connection, pipeline.key, total),
        )


def _find_version(lake: PipelineLake) -> Version:
    pipeline = lake.pipeline
    if pipeline.source.record_id is not None:
        msg = (
            f"`{pipeline.name}`: expected a source without `record_id` to advise on, got `{pipeline.source.record_id}`:"
            " the lateness of records does not determine the effect of a setting. Ids are remembered as long as"
            " windows accept records, so another setting finds other duplicates, counts another one of two duplicates,"
            " and makes records late whose ids were forgotten."
        )
        hint = f"\nHint: `cutover lateness {pipeline.name}` takes ids into account and measures how late records are."
        raise DefinitionError(msg + hint)
    version = versions.find_current_version(lake)
    if version is None:
        raise no_epochs(pipeline)
    return version


def make_delays(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, records: Sequence[EpochRecord]) -> None:
    """Create `delays` from `pairs` and `reached`: windows and keys with two delays and the number of their pairs.

    `__delay` is the time from the end of a record's window to the event time reached before the epoch that read it;
    `__real` is the same for the moment before the record was appended.
    """
    ahead = pipeline.lateness.out_of_orderness_micros
    columns = {"__epoch": [record.epoch for record in records]}
    columns["__before"] = [
        ALWAYS if record.watermark_before is None else record.watermark_before + ahead for record in records
    ]
    connection.register("epochs", pa.table({name: pa.array(of, pa.int64()) for name, of in columns.items()}))
    keys = "".join(f", p.{identifier(name)}" for name in pipeline.key)
    delays = ", ".join(
        f"CASE WHEN {time} > {ALWAYS} THEN {time} - p.__ends - {pipeline.window.late_after} ELSE {ALWAYS} END AS {name}"
        for time, name in (("e.__before", "__delay"), ("a.__reached", "__real"))
    )
    connection.execute(
        "CREATE TEMP TABLE delays AS SELECT p.__partition AS _partition,"
        f" make_timestamptz(p.__starts) AS window_start, make_timestamptz(p.__ends) AS window_end{keys}, {delays},"
        " p.__epoch, count(*) AS __pairs FROM pairs p JOIN epochs e ON e.__epoch = p.__epoch"
        " JOIN reached a ON a.__partition = p.__partition AND a.__offset = p.__offset"
        " WHERE p.__ends IS NOT NULL GROUP BY ALL"
    )


def collect_delays(
    connection: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    epoch_records: Sequence[EpochRecord],
    *,
    has_real: bool,
    is_live: bool,
) -> Delays:
    """Return the delays of windows, rows and records from the table `delays`.

    Args:
        connection: Holds it.
        pipeline: The definition.
        epoch_records: Epochs from the first to the last one that read records, also those that read none.
        has_real: Log timestamps show what would be late at real speed.
        is_live: The epochs read the log as it was produced.
    """
    keys = "".join(f", {identifier(name)}" for name in pipeline.key)
    # For sessions all overlapping rows of a key are one window, which no other key has.
    merges = pipeline.window.merges
    relation = f"({group_sessions_sql(pipeline.key, 'delays')})" if merges else "delays"
    connection.execute(
        "CREATE TEMP TABLE cells AS SELECT min(window_start) AS s, epoch_us(max(window_end)) AS e,"
        " max(__delay) AS most, min(__delay) AS least, max(__real) AS most_real, min(__epoch) AS begun"
        f" FROM {relation} GROUP BY {SESSION if merges else 'window_start'}{keys}"
    )
    by_window, ended = "rowid" if merges else "s", f"e + {pipeline.window.late_after}"
    ahead = pipeline.lateness.out_of_orderness_micros
    watermarks = (epoch_record.watermark_after for epoch_record in epoch_records)
    return Delays(
        read=_lateness(connection, "__delay", "most", by_window),
        real=_lateness(connection, "__real", "most_real", by_window) if has_real else None,
        is_live=is_live,
        firsts=_column(connection, "SELECT least FROM cells ORDER BY begun, least"),
        first_epochs=_column(connection, "SELECT begun FROM cells ORDER BY begun"),
        closing_firsts=_column(connection, "SELECT least FROM cells ORDER BY e, least"),
        closes=_column(connection, f"SELECT e + {pipeline.window.closes_after} FROM cells ORDER BY e"),
        passes=_column(connection, f"SELECT DISTINCT {ended} FROM cells ORDER BY 1"),
        epochs=np.array([epoch_record.epoch for epoch_record in epoch_records], np.int64),
        newest=list_newest_events(epoch_records),
        slowest=np.array([ALWAYS if mark is None else mark + ahead for mark in watermarks], np.int64),
        unit=find_unit(pipeline.window),
    )


def _lateness(connection: duckdb.DuckDBPyConnection, delay: str, longest: str, by_window: str) -> RecordDelays:
    return RecordDelays(
        windows=_column(connection, f"SELECT max({longest}) FROM cells GROUP BY {by_window} ORDER BY 1"),
        rows=_column(connection, f"SELECT {longest} FROM cells ORDER BY 1"),
        records=np.repeat(
            _column(connection, f"SELECT {delay} FROM delays GROUP BY 1 ORDER BY 1"),
            _column(connection, f"SELECT sum(__pairs)::BIGINT FROM delays GROUP BY {delay} ORDER BY {delay}"),
        ),
    )


def list_newest_events(epoch_records: Sequence[EpochRecord]) -> Micros:
    """Return the newest event time of all partitions after each epoch, microseconds; ALWAYS where there was none."""
    return np.array([max(epoch_record.max_event.values(), default=ALWAYS) for epoch_record in epoch_records], np.int64)


def _column(connection: duckdb.DuckDBPyConnection, query: str) -> Micros:
    (values,) = connection.execute(query).fetchnumpy().values()
    return np.asarray(values, np.int64)


def _find_culprits(connection: duckdb.DuckDBPyConnection, columns: Sequence[str], total: int) -> tuple[Culprit, ...]:
    """Find values with several late records and more than twice their share of them, those with the most first."""
    if not columns:
        return ()
    names = ", ".join(map(identifier, columns))
    counts = (
        f"SELECT {names}, sum(__pairs) AS __all, coalesce(sum(__pairs) FILTER (__delay >= {total}), 0) AS __late"
        f" FROM delays GROUP BY {names}"
    )
    shares = (
        f"SELECT {names}, __late, __late / sum(__late) OVER () AS __late_share, __all / sum(__all) OVER () AS __share"
        f" FROM ({counts})"
    )
    # With one or two late records any source would have more than its share.
    ranked = f"SELECT * FROM ({shares}) WHERE __late >= {LATE_AT_LEAST} AND __late_share > 2 * __share"
    rows = connection.execute(f"{ranked} ORDER BY __late DESC, {names}").fetchall()
    return tuple(_make_culprit(columns, row) for row in rows)


def _make_culprit(columns: Sequence[str], row: Sequence[Any]) -> Culprit:
    *values, late, late_share, share = row
    label = ", ".join(starmap(_format_value, zip(columns, values, strict=True)))
    return Culprit(what=label, late=int(late), late_share=float(late_share), share=float(share))


def _format_value(column: str, value: object) -> str:
    if column == "_partition":
        return f"partition={format_partition_number(int(str(value)))}"
    return f"{column}={'null' if value is None else value}"

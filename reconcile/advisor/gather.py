"""How late each record of a log was: the log read once by Spark, its epochs from the epoch log, the rest in DuckDB."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import DefinitionError, LogError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables.schemas import arrow_type, duckdb_type
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import log_of
from cutover.quoting import identifier
from cutover.reconcile.advisor.epochs_read import (
    Chunk,
    join_reads,
    list_epochs_between,
    list_reading_epochs,
    no_epochs,
    split_epochs,
)
from cutover.reconcile.advisor.predict import ALWAYS, Delays, Micros
from cutover.reconcile.result.advice import Culprit
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.fold import SESSION, group_sessions_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.reading import segments
from cutover.records.reading.scan import Offsets, read
from cutover.records.reading.segments import OffsetSpan
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CULPRITS = 5

EPOCHS = pa.schema(
    [("_partition", pa.int32()), *((name, pa.int64()) for name in ("first", "next", "reached", "__epoch"))]
)
"""What of a partition an epoch read, `[first, next)`, and how far the slowest partition's time had come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredDelays:
    """How late records were, and whose late ones are."""

    delays: Delays
    epochs: int  # that have read records
    newest_epoch: int
    version: int  # n of stream-<n>
    records: int  # offsets read
    partitions: tuple[Culprit, ...]
    keys: tuple[Culprit, ...]


def gather(settings: Settings, pipeline: Pipeline) -> GatheredDelays:
    """Read what the epochs have read, as far as the log still holds it.

    Raises:
        DefinitionError: Records of the pipeline are late for another reason too: their ids are forgotten.
        LakeError: No epoch was committed, or epochs were judged under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    version = _find_version(settings, pipeline)
    records = list_reading_epochs(pipeline, version)
    earliest = LogClient(settings).earliest(log_of(pipeline))
    spark = session(settings, app=f"cutover advise {pipeline.name}")
    rejoin = Rejoin(settings, pipeline)
    with queries.connect(queries.reading(settings)) as connection:
        _make_tables(connection, pipeline)
        count = 0
        for chunk in split_epochs(records, earliest):
            count += sum(end - start for _, offsets in chunk for start, end in offsets.values())
            rows = _read_rows(spark, settings, pipeline, rejoin, records, join_reads(chunk))
            _add_rows(connection, pipeline, rows, chunk)
        if not count:
            msg = f"Log of `{pipeline.name}`: expected records that its epochs have read, it holds none of them."
            raise LogError(msg + "\nHint: lateness is told from what the log still holds.")
        total = pipeline.lateness.out_of_orderness_micros + pipeline.lateness.allowed_micros
        return GatheredDelays(
            delays=_delays(connection, pipeline, list_epochs_between(version, records[0].epoch, records[-1].epoch)),
            epochs=len(records),
            newest_epoch=records[-1].epoch,
            version=version.number,
            records=count,
            partitions=tuple(_culprits(connection, ("_partition",), total)),
            keys=tuple(_culprits(connection, pipeline.key, total)),
        )


def _find_version(settings: Settings, pipeline: Pipeline) -> Version:
    if pipeline.source.record_id is not None:
        msg = (
            f"`{pipeline.name}`: expected a source without `record_id` to advise on, got `{pipeline.source.record_id}`:"
            " how late a record is does not tell what a setting would have made of it. Ids are remembered as long as"
            " windows take records, so with another wait other twins are known, another of two twins counts, and"
            " records of forgotten ids are late for that alone."
        )
        hint = f"\nHint: `cutover lateness {pipeline.name}` takes ids into account, and says how late records are."
        raise DefinitionError(msg + hint)
    version = versions.current(settings, pipeline)
    if version is None:
        raise no_epochs(pipeline)
    return version


def _read_rows(
    spark: "SparkSession",
    settings: Settings,
    pipeline: Pipeline,
    rejoin: Rejoin,
    records: Sequence[EpochRecord],
    reads: Sequence[Offsets],
) -> pa.Table:
    """Return `_partition`, `_offset`, window and key of every record that counts somewhere."""
    # A read of its own for each of hundreds of epochs would cost Spark far more than what lies between them.
    spread = (OffsetSpan(partition=p, first=a, last=b - 1) for one in reads for p, (a, b) in one.items())
    whole = segments.reads(spread)
    spans = rejoin.resolve_versions(rejoin.collect_recorded(records), whole)
    parsed = parse_records(read(spark, settings, pipeline, whole), pipeline, rejoin.frames(spark, spans))
    rows = classify_records(parsed, pipeline, watermark_micros=None).where(f"_class = '{Class.ACCEPTED}'")
    return rows.select("_partition", "_offset", "window_start", "window_end", *pipeline.key).toArrow()


def _make_tables(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
    kinds = compile_pipeline(pipeline).key_types
    keys = "".join(f", {identifier(name)} {duckdb_type(arrow_type(kind))}" for name, kind in kinds.items())
    connection.execute(
        f"CREATE TEMP TABLE delays (_partition INT, window_start TIMESTAMPTZ, window_end TIMESTAMPTZ{keys},"
        " __delay BIGINT, __epoch BIGINT, __pairs BIGINT)"
    )


def _add_rows(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, rows: pa.Table, chunk: Chunk) -> None:
    """Give each row its delay: how far time had come before its epoch, beyond the end of its window."""
    ahead = pipeline.lateness.out_of_orderness_micros
    ranges = [
        (partition, first, end, None if one.watermark_before is None else one.watermark_before + ahead, one.epoch)
        for one, offsets in chunk
        for partition, (first, end) in offsets.items()
    ]
    columns = zip(EPOCHS.names, zip(*ranges, strict=True), strict=True)
    connection.register("epochs", pa.table({name: list(values) for name, values in columns}, schema=EPOCHS))
    connection.register("chunk", rows)
    keys = "".join(f", {identifier(name)}" for name in pipeline.key)
    delay = f"e.reached - epoch_us(r.window_end) - {pipeline.window.late_after}"
    chosen = (
        f"SELECT r._partition, r.window_start, r.window_end{keys}, coalesce({delay}, {ALWAYS}) AS __delay, e.__epoch"
        " FROM chunk r"
        " ASOF JOIN epochs e ON r._partition = e._partition AND r._offset >= e.first WHERE r._offset < e.next"
    )
    connection.execute(f"INSERT INTO delays SELECT *, count(*) AS __pairs FROM ({chosen}) GROUP BY ALL")
    connection.unregister("chunk")
    connection.unregister("epochs")


def _delays(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, every: Sequence[EpochRecord]) -> Delays:
    keys = "".join(f", {identifier(name)}" for name in pipeline.key)
    # Of sessions all rows of a key that touch are one window, and no other key has it.
    merges = pipeline.window.merges
    relation = f"({group_sessions_sql(pipeline.key, 'delays')})" if merges else "delays"
    connection.execute(
        "CREATE TEMP TABLE cells AS SELECT min(window_start) AS s, epoch_us(max(window_end)) AS e,"
        " max(__delay) AS most, min(__delay) AS least, min(__epoch) AS begun"
        f" FROM {relation} GROUP BY {SESSION if merges else 'window_start'}{keys}"
    )
    by_window, ended = "rowid" if merges else "s", f"e + {pipeline.window.late_after}"
    ahead = pipeline.lateness.out_of_orderness_micros
    watermarks = (one.watermark_after for one in every)
    return Delays(
        windows=_column(connection, f"SELECT max(most) FROM cells GROUP BY {by_window} ORDER BY 1"),
        rows=_column(connection, "SELECT most FROM cells ORDER BY 1"),
        firsts=_column(connection, "SELECT least FROM cells ORDER BY begun, least"),
        begun=_column(connection, "SELECT begun FROM cells ORDER BY begun"),
        closing_firsts=_column(connection, "SELECT least FROM cells ORDER BY e, least"),
        closes=_column(connection, f"SELECT e + {pipeline.window.closes_after} FROM cells ORDER BY e"),
        passes=_column(connection, f"SELECT DISTINCT {ended} FROM cells ORDER BY 1"),
        records=np.repeat(
            _column(connection, "SELECT __delay FROM delays GROUP BY 1 ORDER BY 1"),
            _column(connection, "SELECT sum(__pairs)::BIGINT FROM delays GROUP BY __delay ORDER BY __delay"),
        ),
        epochs=np.array([one.epoch for one in every], np.int64),
        newest=find_newest(every),
        slowest=np.array([ALWAYS if mark is None else mark + ahead for mark in watermarks], np.int64),
    )


def find_newest(every: Sequence[EpochRecord]) -> Micros:
    """Return the newest event time of all partitions after each epoch, microseconds; ALWAYS where there was none."""
    return np.array([max(one.max_event.values(), default=ALWAYS) for one in every], np.int64)


def _column(connection: duckdb.DuckDBPyConnection, query: str) -> Micros:
    (values,) = connection.execute(query).fetchnumpy().values()
    return np.asarray(values, np.int64)


def _culprits(connection: duckdb.DuckDBPyConnection, columns: Sequence[str], total: int) -> Iterator[Culprit]:
    """Yield those with the most late records among those with more than twice their share, the largest first."""
    if not columns:
        return
    names = ", ".join(map(identifier, columns))
    counted = (
        f"SELECT {names}, sum(__pairs) AS __all, coalesce(sum(__pairs) FILTER (__delay >= {total}), 0) AS __late"
        f" FROM delays GROUP BY {names}"
    )
    shares = (
        f"SELECT {names}, __late, __late / sum(__late) OVER () AS __late_share, __all / sum(__all) OVER () AS __share"
        f" FROM ({counted})"
    )
    ranked = f"SELECT * FROM ({shares}) WHERE __late > 0 AND __late_share > 2 * __share"
    found = connection.execute(f"{ranked} ORDER BY __late DESC, {names} LIMIT {CULPRITS}").fetchall()
    for *values, late, late_share, share in found:
        pairs = zip(columns, values, strict=True)
        what = ", ".join(f"{name.removeprefix('_')}={'null' if value is None else value}" for name, value in pairs)
        yield Culprit(what=what, late=int(late), late_share=float(late_share), share=float(share))

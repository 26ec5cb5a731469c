"""Delays of the records of a log, as they were read and as they were appended: read by Spark, folded in DuckDB."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.engine.spark import session
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.rejoin import Rejoin
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.read_speed import ReadSpeed, measure_read_speed
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_number, name_log
from cutover.quoting import identifier
from cutover.reconcile.advisor.epochs_read import list_epochs_between, list_reading_epochs, no_epochs
from cutover.reconcile.advisor.lengths import find_unit
from cutover.reconcile.advisor.log_pairs import LogReading, load_pairs, trace_real_speed
from cutover.reconcile.advisor.predict import ALWAYS, Delays, Micros, RecordDelays
from cutover.reconcile.advisor.real_speed import find_pace
from cutover.reconcile.result.advice import Culprit
from cutover.reconcile.result.timeliness import tells_real_speed
from cutover.records.fold import SESSION, group_sessions_sql
from cutover.settings import Settings

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


def gather_delays(settings: Settings, pipeline: Pipeline) -> GatheredDelays:
    """Read the records of the epochs that the log still holds, and compute their delays.

    Raises:
        DefinitionError: The source has record ids, so records are also late because their ids are forgotten.
        LakeError: No epoch was committed, or epochs were judged under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    version = _find_version(settings, pipeline)
    records = list_reading_epochs(settings, pipeline, version)
    earliest = LogClient(settings).earliest(name_log(pipeline))
    spark = session(settings, app=f"cutover advise {pipeline.name}")
    reading = LogReading(
        spark=spark, settings=settings, pipeline=pipeline, rejoin=Rejoin(settings, pipeline), records=records
    )
    with queries.connect(queries.make_reader_limits(settings)) as connection:
        count = load_pairs(connection, reading, earliest)
        pace = find_pace(trace_real_speed(connection, pipeline))
        make_delays(connection, pipeline, records)
        total = pipeline.lateness.out_of_orderness_micros + pipeline.lateness.allowed_micros
        epochs = list_epochs_between(version, records[0].epoch, records[-1].epoch)
        return GatheredDelays(
            delays=collect_delays(connection, pipeline, epochs, has_real=tells_real_speed(pace)),
            read_speed=measure_read_speed(records),
            log_pace=pace,
            epochs=len(records),
            newest_epoch=records[-1].epoch,
            version=version.number,
            records=count,
            partitions=_find_culprits(connection, ("_partition",), total),
            keys=_find_culprits(connection, pipeline.key, total),
        )


def _find_version(settings: Settings, pipeline: Pipeline) -> Version:
    if pipeline.source.record_id is not None:
        msg = (
            f"`{pipeline.name}`: expected a source without `record_id` to advise on, got `{pipeline.source.record_id}`:"
            " the lateness of records does not determine the effect of a setting. Ids are remembered as long as"
            " windows accept records, so another setting finds other duplicates, counts another one of two duplicates,"
            " and makes records late whose ids were forgotten."
        )
        hint = f"\nHint: `cutover lateness {pipeline.name}` takes ids into account and measures how late records are."
        raise DefinitionError(msg + hint)
    version = versions.current(settings, pipeline)
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
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, epoch_records: Sequence[EpochRecord], *, has_real: bool
) -> Delays:
    """Return the delays of windows, rows and records from the table `delays`.

    Args:
        connection: Holds it.
        pipeline: The definition.
        epoch_records: Epochs from the first to the last one that read records, also those that read none.
        has_real: Log timestamps show what would be late at real speed.
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
        return f"partition={format_number(int(str(value)))}"
    return f"{column}={'null' if value is None else value}"

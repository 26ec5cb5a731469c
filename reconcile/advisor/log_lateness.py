"""Delays of a log's records by partition and value of the key, both when appended and when read.

The log timestamp shows when each record was appended, the epochs show when it was read. Tables of DuckDB hold quantiles
and a histogram, by segment, and show which segments alone are late. `judged` has one row for each record that counts in
a window: `__partition`, the key, `__behind` (microseconds), `__pairs` (windows), `__late` (of these late at real
speed), `__missed` (of these late as they were read).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import MINUTE, Pipeline, compute_id_horizon
from cutover.engine import queries
from cutover.engine.queries import fetch_number, fetch_row
from cutover.engine.spark import session
from cutover.errors import LakeError
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.dimensions.joined_versions import Rejoin
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.epochs.read_speed import measure_read_speed, tells_real_speed
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition_number, name_log
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.reconcile.advisor.gather import LogReading, list_reading_epochs, load_pairs, trace_real_speed
from cutover.reconcile.advisor.predict import UNKNOWN, find_pace
from cutover.reconcile.result.codec import Scalar, scalar
from cutover.reconcile.result.measurements import (
    LatenessCount,
    LatenessQuantiles,
    LatenessSegment,
    LateShares,
    LateSource,
    LogLateness,
)
from cutover.records.classes import Class
from cutover.records.watermark import compute_late_margin
from cutover.timestamps import format_micros, to_micros

SHARES = (0.5, 0.9, 0.99, 0.999)
EDGES = (0, 1, 5, 15, 30, 60, 120, 240, 480, 960, 1440, 2880, 10_080)
"""Edges of the histogram, minutes."""

MANY, SHOWN = 100, 20
"""Records that a value must have to be a segment; values of a column that are listed at most."""

ALONE, HALF, LATE_AT_LEAST = 0.9, 0.5, 5
"""Limits of a source: minimum share of the late pairs, maximum share of all pairs, minimum number of late pairs."""

_SECOND, _MINUTE = 1_000_000, 60_000_000
_FIGURES = (
    f"count(*), quantile_disc(__behind, {list(SHARES)}), max(__behind), sum(__late)::BIGINT, sum(__missed)::BIGINT"
)

_BOUNDS: Sequence[tuple[int, int | None]] = (
    (0, 1),
    *((low * _MINUTE or 1, high * _MINUTE) for low, high in pairwise(EDGES)),
    (EDGES[-1] * _MINUTE, None),
)
"""Bins of a histogram, microseconds: from, to; None: open end."""

_BINS = (f"__behind >= {low}{'' if high is None else f' AND __behind < {high}'}" for low, high in _BOUNDS)
_COUNTS = f"[{', '.join(f'count(*) FILTER ({condition})' for condition in _BINS)}]"


def create_judged_table(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, reads: pa.Table) -> None:
    """Create `judged` from `pairs` and `reached`.

    Args:
        connection: Holds `pairs` and `reached` (`log_pairs`).
        pipeline: The key, and when a record is late.
        reads: `__partition`, `__first`, `__read`: event time that decided whether the records from an offset on were
            late when they were read; null if there was none.
    """
    connection.register("reads", reads)
    keys = "".join(f", any_value(p.{name}) AS {name}" for name in map(identifier, pipeline.key))
    connection.execute(f"""
        CREATE TEMP TABLE judged AS
        SELECT p.__partition{keys},
            greatest(any_value(CASE WHEN a.__reached > {UNKNOWN} THEN a.__reached - p.__event ELSE 0 END), 0)
                AS __behind,
            count(*) AS __pairs,
            count(*) FILTER (a.__reached > {UNKNOWN} AND {_is_late_sql(pipeline, "a.__reached")}) AS __late,
            count(*) FILTER (r.__read IS NOT NULL AND {_is_late_sql(pipeline, "r.__read")}) AS __missed
        FROM pairs p
        JOIN reached a ON a.__partition = p.__partition AND a.__offset = p.__offset
        ASOF LEFT JOIN reads r ON r.__partition = p.__partition AND p.__offset >= r.__first
        WHERE p.__ends IS NOT NULL GROUP BY p.__partition, p.__offset
    """)


def _is_late_sql(pipeline: Pipeline, reached: str) -> str:
    """Return whether a pair is late once the slowest partition has reached an event time."""
    mark = f"({reached} - {pipeline.lateness.out_of_orderness_micros})"
    late = f"p.__ends + {compute_late_margin(pipeline)} <= {mark}"
    if pipeline.source.record_id is None:
        return f"({late})"
    oldest = f"({mark} - {compute_id_horizon(pipeline)})"
    return f"({late} OR p.__event < {oldest} - ({oldest} % {MINUTE} + {MINUTE}) % {MINUTE})"


def count_windowed_records(connection: duckdb.DuckDBPyConnection) -> int:
    """Count the records that belong to a window."""
    return fetch_number(connection, "SELECT count(*) FROM judged")


def count_late(connection: duckdb.DuckDBPyConnection, pace: float | None) -> LateShares:
    """Count the pairs that are late at real speed and as they were read."""
    sums = (f"coalesce(sum({name}), 0)::BIGINT" for name in ("__pairs", "__late", "__missed"))
    pairs, late, missed = fetch_row(connection, f"SELECT {', '.join(sums)} FROM judged")
    return LateShares(pairs=int(pairs), at_real_speed=int(late), as_read=int(missed), pace=pace)


def measure_quantiles(connection: duckdb.DuckDBPyConnection) -> LatenessQuantiles | None:
    """Return the quantiles of all records; None where there are none."""
    count, quantiles, largest, *_ = fetch_row(connection, f"SELECT {_FIGURES} FROM judged")
    return _quantiles(quantiles, largest) if count else None


def _quantiles(micros: Sequence[int], largest: int) -> LatenessQuantiles:
    p50, p90, p99, p999 = (value / _SECOND for value in micros)
    return LatenessQuantiles(p50=p50, p90=p90, p99=p99, p999=p999, largest=largest / _SECOND)


def count_by_lateness(connection: duckdb.DuckDBPyConnection) -> tuple[LatenessCount, ...]:
    """Return the histogram: records without delay, then bins up to the last that is not empty."""
    (counts,) = fetch_row(connection, f"SELECT {_COUNTS} FROM judged")
    return _histogram(counts)


def _histogram(counts: Sequence[int]) -> tuple[LatenessCount, ...]:
    filled = [place for place, count in enumerate(counts) if count]
    return tuple(
        LatenessCount(
            from_seconds=0.0 if low <= 1 else low / _SECOND,
            to_seconds=0.0 if high == 1 else None if high is None else high / _SECOND,
            records=int(count),
        )
        for (low, high), count in list(zip(_BOUNDS, counts, strict=True))[: filled[-1] + 1 if filled else 0]
    )


def list_segments(connection: duckdb.DuckDBPyConnection, key: Sequence[str]) -> tuple[LatenessSegment, ...]:
    """List all partitions, then for each key column the values with the most records, at least `MANY`."""
    partitions = f"SELECT __partition, {_FIGURES}, {_COUNTS} FROM judged GROUP BY 1 ORDER BY 1"
    segments = [_segment(None, row) for row in connection.execute(partitions).fetchall()]
    for name in key:
        column = identifier(name)
        groups = f"SELECT {column}, {_FIGURES}, {_COUNTS} FROM judged GROUP BY {column} HAVING count(*) >= {MANY}"
        rows = connection.execute(f"{groups} ORDER BY count(*) DESC, {column} NULLS LAST LIMIT {SHOWN}").fetchall()
        segments += [_segment(name, row) for row in rows]
    return tuple(segments)


def _segment(column: str | None, row: Sequence[Any]) -> LatenessSegment:
    value, count, quantiles, largest, late, missed, counts = row
    return LatenessSegment(
        column=column,
        value=_name_value(column, value),
        records=int(count),
        lateness=_quantiles(quantiles, largest),
        histogram=_histogram(counts),
        late=int(late),
        late_as_read=int(missed),
    )


def _name_value(column: str | None, value: Any) -> Scalar:
    return format_partition_number(int(value)) if column is None else scalar(value)


def list_sources(connection: duckdb.DuckDBPyConnection, key: Sequence[str]) -> tuple[LateSource, ...]:
    """List the partitions and values that cause most late records: at real speed, or as read if none is late then."""
    late_column = "__late" if fetch_number(connection, "SELECT sum(__late) FROM judged") else "__missed"
    return tuple(source for column in (None, *key) for source in _find_sources(connection, column, late_column))


def _find_sources(connection: duckdb.DuckDBPyConnection, column: str | None, late_column: str) -> Iterator[LateSource]:
    name = identifier("__partition" if column is None else column)
    sums = f"SELECT {name} AS v, sum({late_column}) AS late, sum(__pairs) AS n FROM judged GROUP BY 1"
    shares = f"SELECT v, late, late / sum(late) OVER () AS of_late, n / sum(n) OVER () AS of_all FROM ({sums})"
    is_alone = f"late >= {LATE_AT_LEAST} AND of_late >= {ALONE} AND of_all <= {HALF}"
    query = f"SELECT * FROM ({shares}) WHERE {is_alone} ORDER BY late DESC, v"
    for value, late, of_late, of_all in connection.execute(query).fetchall():
        yield LateSource(
            column=column,
            value=_name_value(column, value),
            late=int(late),
            late_share=float(of_late),
            share=float(of_all),
        )


def measure_log_lateness(lake: PipelineLake, clock: Clock) -> LogLateness:
    """Measure the delays of the records that the current version has read and the log still holds.

    Raises:
        LakeError: No epoch was committed, or epochs were read under several settings of lateness.
        LogError: The log holds none of it any more, or does not answer.
    """
    settings, pipeline = lake.settings, lake.pipeline
    version = versions.find_current_version(lake)
    records = list_reading_epochs(lake, version)
    if version is None:  # then there was no epoch, and that was reported
        raise LakeError(pipeline.name)
    earliest = LogClient(settings).earliest(name_log(pipeline))
    spark = session(settings, app=f"cutover lateness {pipeline.name}")
    reading = LogReading(spark=spark, lake=lake, rejoin=Rejoin(lake), records=records)
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        load_pairs(connection, reading, earliest)
        _drop_duplicates(connection, pipeline, version, records[-1].epoch)
        pace = find_pace(measure_read_speed(records), trace_real_speed(connection, pipeline))
        create_judged_table(connection, pipeline, _list_reads(pipeline, records))
        shares = count_late(connection, pace)
        deleted_records = _count_gone(records, earliest)
        return LogLateness(
            pipeline=pipeline.name,
            at=format_micros(to_micros(clock.now())) or "",
            result_fingerprint=result_fingerprint(pipeline),
            lateness_fingerprint=records[-1].lateness_fingerprint,
            version=version.number,
            epoch=records[-1].epoch,
            epochs=len(records),
            records=count_windowed_records(connection),
            lateness=measure_quantiles(connection),
            histogram=count_by_lateness(connection),
            shares=shares,
            segments=list_segments(connection, pipeline.key),
            sources=list_sources(connection, pipeline.key),
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
    elif not tells_real_speed(shares.pace):
        fast = f"Event time passed {shares.pace:,.0f} times faster than log time"
        notes.append(f"{fast}: these log timestamps are those of a load, and so is the share at real speed.")
    if deleted_records:
        text = f"{sum(deleted_records.values()):,} of the offsets that the epochs read are no longer in the log"
        notes.append(f"{text}: the figures cover the others.")
    return notes

"""One scan of new offsets: every class aggregated by partition, window and key, with the offsets that hold it.

Each record is joined with the versions of dimensions that the stream recorded for its epoch.

The cut of a run is a committed epoch of the streaming path, pinned and checked against its log. Staged rows of a run
are Parquet files next to the tables, written by Spark, read by DuckDB.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pyarrow import fs

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.definition.windows.kinds import Fixed, Sessions
from cutover.engine import queries
from cutover.errors import LogError
from cutover.lake.control import pins, versions
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.joined_versions import Rejoin, Spans, VersionSpan
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.integrity import table_weights
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import BATCH_INDEX, IndexKind, batch_ledger_schema, partial_schema
from cutover.log.cut import LogId
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal
from cutover.records import classify
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.enrich import NO_DIMENSIONS, Dimensions, drop_lookups
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.reading.scan import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCut:
    """Cut of a run; batch uses nothing else of the stream's tables."""

    version: versions.Version
    record: EpochRecord
    newest: EpochRecord


@contextmanager
def pin_cut(lake: PipelineLake, epoch: int | None, *, holder: str, clock: Clock) -> Iterator[BatchCut]:
    """Pin an epoch, by default the newest, until the run is compared; release it at once if the run fails.

    Raises:
        LakeError: A person or a tool removed the epoch log.
        LogError: No epoch is committed under this definition, or the named one is ahead of the newest.
    """
    pipeline = lake.pipeline
    version = versions.find_current_version(lake)
    if version is None:
        raise _no_epoch(pipeline)
    table_weights.check_not_removed(lake, version)
    if not delta.exists(version.uri):
        raise _no_epoch(pipeline)
    newest = EpochLog(version.uri).newest()
    if newest is None:
        raise _no_epoch(pipeline)
    number = newest.epoch if epoch is None else epoch
    if not 0 <= number <= newest.epoch:
        msg = f"Cut of `{pipeline.name}` is ahead of the log: expected an epoch from 0 to {newest.epoch}, got {number}."
        raise LogError(msg)
    with pins.pin_for_reader(lake.settings, version, number, holder=holder, clock=clock):
        yield BatchCut(version=version, record=_record(version, number), newest=newest)


def check_same_topic(pipeline: Pipeline, record: EpochRecord, log: LogId) -> None:
    """Check that the topic is the one that the epoch was read from.

    Raises:
        LogError: The topic was deleted and created again, or the cluster is another one.
    """
    expected, actual = (record.cluster_id, record.topic_id), (log.cluster_id, log.topic_id)
    if expected != actual:
        msg = (
            f"Topic `{log.topic}` of `{pipeline.name}`: expected cluster and topic id {expected[0]}, {expected[1]} "
            f"as of epoch {record.epoch}, got {actual[0]}, {actual[1]}."
            "\nHint: the topic was created again and is another log."
        )
        raise LogError(msg, runbook="TopicIdentityChanged")


def check_offsets(pipeline: Pipeline, record: EpochRecord, earliest: dict[int, int], latest: dict[int, int]) -> None:
    """Check that the log reaches the cut and still holds it.

    Raises:
        LogError: Names the partition, the offset and the bound.
    """
    for partition, offset in sorted(record.end.items()):
        place = f"Cut of `{pipeline.name}` is not in the log: {format_partition(record.topic, partition)}: "
        if offset > latest.get(partition, 0):
            msg = place + f"expected offset <= {latest.get(partition, 0)}, got {offset}.\nHint: the log was cut short."
            raise LogError(msg, runbook="LogDataLost")
        if offset < earliest.get(partition, 0):
            msg = place + f"expected offset >= {earliest[partition]}, got {offset}."
            raise LogError(msg + "\nHint: retention removed it; choose a later cut.", runbook="LogDataLost")


def _record(version: versions.Version, number: int) -> EpochRecord:
    # Read after the pin, so no fold can remove the epoch in between.
    for record in EpochLog(version.uri).records(after=number - 1):
        if record.epoch == number:
            return record
    msg = f"Epoch {number} of `{version.app_id}`: expected its record in the epoch log, found none."
    raise LogError(msg, runbook="EpochHistoryBroken")


def _no_epoch(pipeline: Pipeline) -> LogError:
    msg = f"Cut of `{pipeline.name}`: expected a committed epoch under this definition, found none."
    return LogError(msg + f"\nHint: `{pipeline.driver_command} --drain` commits one.")


FOLDER = "_staging"


@dataclass(frozen=True, slots=True)
class Staging:
    """Folder that exists for the duration of the run."""

    connection: duckdb.DuckDBPyConnection
    uri: str

    def write(self, name: str, frame: "DataFrame") -> None:
        """Run a Spark job and bind a view to its rows."""
        target = f"{self.uri}/{name}"
        frame.write.mode("overwrite").parquet(target)
        if "://" in target:
            from pyarrow import dataset  # noqa: PLC0415 -- a lake in an object store only

            self.connection.register(name, dataset.dataset(target, format="parquet"))
            return
        files = literal(f"{target}/*.parquet")
        self.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {identifier(name)} AS "  # noqa: S608 -- quoted
            f"SELECT * FROM read_parquet({files}, hive_partitioning = false)"
        )


@contextmanager
def staging(connection: duckdb.DuckDBPyConnection, version_uri: str, run_id: str) -> Iterator[Staging]:
    """Yield the run's folder; clear the staged files of all runs before and after, since one writer holds the lock."""
    _clear(f"{version_uri}/{FOLDER}")
    try:
        yield Staging(connection, f"{version_uri}/{FOLDER}/{run_id}")
    finally:
        _clear(f"{version_uri}/{FOLDER}")


def _clear(uri: str) -> None:
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)


HOURS = Fixed(hours=1)
"""How finely the index knows where the rows of sessions lie: there are no windows that it could know."""

SCAN, TOUCHED, AGAIN, ONCE = "scanned", "touched", "read_again", "once"
COUNTED = "counted"
"""Partials of the windows that are computed."""

FIRST, LAST, CONFLICTS = "_first_offset", "_last_offset", "_conflicts"

_TOUCHED = f"""
    SELECT _partition, window_start, window_end, min({FIRST}) AS first_offset, max({LAST}) AS last_offset,
           sum(_n)::BIGINT AS _n
    FROM {{source}} WHERE {{where}} GROUP BY _partition, window_start, window_end
"""  # noqa: S608 -- internal names


def stage_scan(records: "DataFrame", pipeline: Pipeline, staged: Staging, dimensions: Dimensions) -> None:
    """Stage the partials of records that no run has scanned, and the index rows that follow from them.

    Views: `scanned` (the partial shape, `_partition` always set, first and last offset), `touched` (`_partition`,
    `window_start`, `window_end`, `first_offset`, `last_offset`, `_n`; of the rows that can count in a window; of
    sessions by `HOURS`).
    """
    staged.write(SCAN, aggregate_records(records, pipeline, dimensions))
    if isinstance(pipeline.batch, SameDefinition) and not pipeline.lookups:
        _bind_touched(pipeline, staged.connection, SCAN, condition=f"_class = '{Class.ACCEPTED}'")
        return
    # The team's SQL decides for itself what it filters, and another version of a dimension may count what this one does
    # not: every row that parsed touches its windows.
    staged.write("windows", _windows(records, pipeline))
    _bind_touched(pipeline, staged.connection, "windows", condition="true")


def stage_again(records: "DataFrame", pipeline: Pipeline, staged: Staging, dimensions: Dimensions) -> None:
    """Stage the partials of records that an earlier run scanned, as the view `read_again`."""
    staged.write(AGAIN, aggregate_records(records, pipeline, dimensions))


def count_once(
    records: "DataFrame", pipeline: Pipeline, staged: Staging, dimensions: Dimensions, *, view: str = ONCE
) -> None:
    """Stage the partials of all records of some windows, with duplicates of one another separated.

    The view has what can count, as accepted or duplicate, in the partial shape, and `_conflicts bigint`. Of a window
    whose records are not all among these the rows mean nothing.
    """
    rows = parse_records(records, pipeline, dimensions)
    classified = classify_records(
        classify.mark_duplicates(rows, pipeline), pipeline, watermark_micros=None, duplicate=classify.IS_TWIN
    )
    can_count = classified.where(f"_class IN ('{Class.ACCEPTED}', '{Class.DUPLICATE}')")
    further = {CONFLICTS: f"sum({classify.CONFLICT})"}
    staged.write(view, aggregate_partials(can_count, pipeline, by=("_partition",), extra_aggregates=further))


def aggregate_records(records: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Return the partial shape by partition of records without lateness: batch judges no row late."""
    rows = classify_records(parse_records(records, pipeline, dimensions), pipeline, watermark_micros=None)
    bounds = {FIRST: "min(_offset)", LAST: "max(_offset)"}
    return aggregate_partials(rows, pipeline, by=("_partition",), extra_aggregates=bounds)


def stage_nothing(pipeline: Pipeline, connection: duckdb.DuckDBPyConnection) -> None:
    """Bind the views of a scan that had nothing to read."""
    connection.register(SCAN, _make_scan_schema(pipeline).empty_table())
    _bind_touched(pipeline, connection, SCAN, condition="true")


def make_range_rows(connection: duckdb.DuckDBPyConnection, run_id: str, target: BatchCut) -> pa.Table:
    """Make the batch index's rows of kind `range` from the view `touched`: what a window took from a partition."""
    query = f"SELECT '{IndexKind.RANGE}' AS _kind, $run AS _run, $epoch AS _epoch, *, NULL AS _record FROM {TOUCHED}"  # noqa: S608 -- constants
    return _table(connection, query, {"run": run_id, "epoch": target.record.epoch}, BATCH_INDEX)


def make_ledger_rows(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, run_id: str, target: BatchCut
) -> pa.Table:
    """Return the rows of the scan that count in no window, and those of the computed windows that have a twin there."""
    rows = f"SELECT * FROM {SCAN} WHERE _class <> '{Class.ACCEPTED}'"  # noqa: S608 -- internal names
    if can_detect_duplicates(pipeline):
        rows += f" UNION ALL BY NAME SELECT * FROM {COUNTED} WHERE _class = '{Class.DUPLICATE}'"  # noqa: S608 -- ours
    query = f"SELECT $run AS _run, $epoch AS _epoch, * FROM ({rows})"  # noqa: S608 -- internal names
    parameters: dict[str, object] = {"run": run_id, "epoch": target.record.epoch}
    return _table(connection, query, parameters, batch_ledger_schema(pipeline))


def count_classes(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> dict[str, int]:
    """Return the (record, window) pairs of the scan by class; duplicates are those of computed windows."""
    rows = f"SELECT _class, _n FROM {SCAN}"  # noqa: S608 -- an internal name
    if can_detect_duplicates(pipeline):
        rows += f" UNION ALL SELECT _class, _n FROM {COUNTED} WHERE _class = '{Class.DUPLICATE}'"  # noqa: S608 -- ours
    query = f"SELECT _class, sum(_n)::BIGINT FROM ({rows}) GROUP BY ALL ORDER BY ALL"  # noqa: S608 -- internal names
    return dict(connection.execute(query).fetchall())


def count_id_conflicts(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> int:
    """Return how many records of the computed windows count although one with their id is earlier."""
    if not can_detect_duplicates(pipeline):
        return 0
    query = f"SELECT coalesce(sum({CONFLICTS}), 0)::BIGINT FROM {COUNTED}"  # noqa: S608 -- internal names
    (touched_count,) = connection.execute(query).fetchall()[0]
    return int(touched_count)


def can_detect_duplicates(pipeline: Pipeline) -> bool:
    """Return whether a run finds twins itself: a team's SQL decides what it counts."""
    return pipeline.source.record_id is not None and isinstance(pipeline.batch, SameDefinition)


def _bind_touched(pipeline: Pipeline, connection: duckdb.DuckDBPyConnection, rows: str, *, condition: str) -> None:
    source = _hours_sql(pipeline.window, rows) if isinstance(pipeline.window, Sessions) else rows
    connection.execute(f"CREATE TEMP VIEW {TOUCHED} AS {_TOUCHED.format(source=source, where=condition)}")


def _hours_sql(window: Sessions, rows: str) -> str:
    """Return rows with an hour in the place of a session: one row for each hour from its first to its last row."""
    start_sql, end_sql = "epoch_us(window_start)", f"epoch_us(window_end) - {window.gap_micros}"
    hour = f"{start_sql} - (({start_sql} % {HOURS.size}) + {HOURS.size}) % {HOURS.size}"
    hours = f"SELECT * EXCLUDE (window_start, window_end), unnest(range({hour}, {end_sql} + 1, {HOURS.size})) AS hour FROM {rows}"  # noqa: S608, E501 -- internal names
    ends = f"make_timestamptz(hour) AS window_start, make_timestamptz(hour + {HOURS.size}) AS window_end"
    return f"(SELECT *, {ends} FROM ({hours}))"  # noqa: S608 -- internal names


def _windows(records: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; only a run needs it

    pipeline = drop_lookups(pipeline)
    unfiltered = parse_records(records, pipeline).withColumn("_filtered", F.lit(False))  # noqa: FBT003 -- a literal
    rows = classify_records(unfiltered, pipeline, watermark_micros=None).where(F.col("window_start").isNotNull())
    bounds = (F.min("_offset").alias(FIRST), F.max("_offset").alias(LAST), F.count(F.lit(1)).alias("_n"))
    return rows.groupBy("_partition", "window_start", "window_end").agg(*bounds)


def _make_scan_schema(pipeline: Pipeline) -> pa.Schema:
    return partial_schema(pipeline).append(pa.field(FIRST, pa.int64())).append(pa.field(LAST, pa.int64()))


def _table(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, object], schema: pa.Schema
) -> pa.Table:
    """Return a query's rows in a table's columns and types."""
    table = queries.query_table(connection, query, params=parameters)
    return table.select(schema.names).cast(schema)


class BatchEnrichment:
    """Dimensions of one run, with the versions that it joined."""

    def __init__(self, lake: PipelineLake, target: BatchCut) -> None:
        self._rejoin = Rejoin(lake) if lake.pipeline.lookups else None
        self._known: Spans = {} if self._rejoin is None else self._rejoin.collect_recorded(_records(target))
        self._spans: dict[str, list[VersionSpan]] = defaultdict(list)

    @property
    def spans(self) -> Mapping[str, tuple[VersionSpan, ...]]:
        """Return the joined versions so far, by lookup."""
        return {name: joined_versions.merge_spans(spans) for name, spans in self._spans.items()}

    def resolve_versions(self, reads: Sequence[Offsets]) -> Spans:
        """Resolve the versions to join the records of some offsets with, and remember them.

        Raises:
            LakeError: The current version of a dimension cannot be joined, and a recorded one can no longer be read.
        """
        joined_versions = {} if self._rejoin is None else self._rejoin.resolve_versions(self._known, reads)
        for name, spans in joined_versions.items():
            self._spans[name] += spans
        return joined_versions

    def frames(self, spark: "SparkSession", spans: Spans) -> Dimensions:
        """Return what the records of resolved offsets are joined with."""
        return NO_DIMENSIONS if self._rejoin is None else self._rejoin.frames(spark, spans)


def _records(target: BatchCut) -> Sequence[EpochRecord]:
    """Return the epochs up to the cut, which is pinned."""
    return [record for record in EpochLog(target.version.uri).records() if record.epoch <= target.record.epoch]

"""Rows that differ because the paths joined the same records with different versions of a dimension, found by a refold.

For windows where this is possible, Spark reads the records from the log and joins them twice: with the versions that
the stream's epochs recorded, and with those that the batch run recorded. If the first result equals the stream's row
(with late rows merged), the second one becomes the row of an additional stage; if it equals batch, versions are the
cause. A team's SQL may also count future rows and duplicates: there both results are computed with these classes too.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or a constant

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.queries import fetch_number
from cutover.engine.spark import session
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.joined_versions import Rejoin, Spans
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind, partial_schema
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.comparison.diff import diff_relations
from cutover.reconcile.comparison.digests import differing_groups
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import Sides, key_columns
from cutover.reconcile.preconditions import checks
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.finding import DIMENSION, DimensionVersions, SealBreach
from cutover.records import classify
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.enrich import Dimensions
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.records.reading.scan import Offsets, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RefoldPart:
    """Windows, with the offsets of their records and the versions to join them with."""

    windows: tuple[int, ...]  # starts, microseconds
    reads: Offsets
    by_stream: Spans
    by_batch: Spans


def create_refold_tables(
    connection: duckdb.DuckDBPyConnection,
    lake: PipelineLake,
    parts: Sequence[RefoldPart],
    *,
    into: tuple[str, str],
    further: Sequence[Class] = (),
) -> EffectiveSettings:
    """Create two tables with the rows of `fold.finish_sql`: joined as the stream did, and as batch did.

    Args:
        connection: Connection that gets the tables.
        lake: Pipeline whose log is read again.
        parts: Windows, their offsets, and the versions of each side.
        into: Names of the two tables.
        further: Classes that are folded as well: each additional table folds one more of them (`table_with_classes`).

    Returns:
        The settings in force in the Spark session that folded them.

    Raises:
        LakeError: A version cannot be read.
    """
    pipeline = lake.pipeline
    spark, rejoin = session(lake.settings, app=f"cutover reconcile {pipeline.name}"), Rejoin(lake)
    for name, side in zip(into, ("by_stream", "by_batch"), strict=True):
        rows = []
        for part in parts:
            spans = {
                lookup: joined_versions.spans_to_read(getattr(part, side)[lookup], [part.reads], (0, ""))
                for lookup in pipeline.lookups
            }
            records = read_records(spark, lake, (part.reads,))
            rows.append(
                _aggregate_windows(
                    _classify_without_late(records, pipeline, rejoin.frames(spark, spans)), pipeline, part.windows
                )
            )
        connection.register("refolded", pa.concat_tables(rows))
        for class_count in range(len(further) + 1):
            folded = finish_sql(pipeline, "refolded", keep=(Class.ACCEPTED, *further[:class_count]))
            connection.execute(f"CREATE TEMP TABLE {table_with_classes(name, class_count)} AS {folded}")
        connection.unregister("refolded")
    return readback.read_session_settings(spark, pipeline)


def table_with_classes(name: str, class_count: int) -> str:
    """Return the table of `create_refold_tables` in which the first `class_count` further classes are folded too."""
    return f"{name}_{class_count}" if class_count else name


def _classify_without_late(records: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Return classified rows without lateness; records with an id count once, as in batch."""
    rows = parse_records(records, pipeline, dimensions)
    if pipeline.source.record_id is None:
        return classify_records(rows, pipeline, watermark_micros=None)
    return classify_records(
        classify.mark_duplicates(rows, pipeline), pipeline, watermark_micros=None, duplicate=classify.IS_TWIN
    )


def _aggregate_windows(classified: "DataFrame", pipeline: Pipeline, windows: Sequence[int]) -> pa.Table:
    """Aggregate the rows of windows (starts in microseconds) in the schema of partial aggregates."""
    starts = ", ".join(f"{start}L" for start in windows)
    selected = classified.where(f"unix_micros(window_start) IN ({starts})")
    schema = partial_schema(pipeline)
    return aggregate_partials(selected, pipeline).toArrow().select(schema.names).cast(schema)


AS_STREAM, AS_BATCH, SEEN = "joined_as_stream", "joined_as_batch", "seen_by_stream"
_MERGED = 1  # the stage with late rows merged: the stream's value of every record that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Windows that differ and contain records that the two sides joined with different versions."""

    run: BatchRun  # the one that computed them
    windows: tuple[int, ...]  # starts, microseconds
    reads: Offsets  # contain all their records


def stage_refold(lake: PipelineLake, evidence: SealEvidence, sides: Sides) -> Sides:
    """Return the sides, with an additional stage if versions of a dimension cause a difference.

    Raises:
        SealError: Versions can be neither proven nor ruled out as a cause: a version or records no longer exist, or
            the session that refolds has different settings in force.
    """
    if not lake.pipeline.lookups:
        return sides
    rejoin = Rejoin(lake)
    recorded_spans = rejoin.collect_recorded(evidence.records)
    suspects = _list_suspects(lake, evidence, sides, recorded_spans)
    if not suspects:
        return sides
    _check_provable(lake, rejoin, recorded_spans, suspects)
    parts = [
        RefoldPart(
            windows=suspect.windows, reads=suspect.reads, by_stream=recorded_spans, by_batch=suspect.run.dimensions
        )
        for suspect in suspects
    ]
    further = () if sides.same_definition else tuple(map(Class, sides.merged[_MERGED:]))
    in_force = create_refold_tables(sides.connection, lake, parts, into=(AS_STREAM, AS_BATCH), further=further)
    _check_settings(lake.pipeline, evidence, batch_runs.read_effective_runs(lake), in_force)
    return _add_stage(sides, [start for suspect in suspects for start in suspect.windows], further)


def list_joined_versions(lake: PipelineLake, evidence: SealEvidence) -> tuple[DimensionVersions, ...]:
    """Return the versions that both sides joined with; for batch, those of all runs up to the compared one."""
    if not lake.pipeline.lookups:
        return ()
    spans = {
        name: [s for run in _list_runs(lake, evidence) for s in run.dimensions.get(name, ())]
        for name in lake.pipeline.lookups
    }
    return tuple(
        DimensionVersions(
            lookup=name,
            streaming=tuple(sorted({s.version for s in joined_versions.list_recorded_spans(evidence.records, name)})),
            batch=tuple(sorted({s.version for s in batch_spans})),
            gone=tuple(joined_versions.list_replaced_versions({name: batch_spans}).get(name, ())),
        )
        for name, batch_spans in spans.items()
    )


def _check_settings(
    pipeline: Pipeline, evidence: SealEvidence, runs: Sequence[BatchRun], in_force: EffectiveSettings
) -> None:
    text = next(
        checks.list_session_differences(pipeline, batch_runs.find_effective_settings(runs, evidence.run), in_force),
        None,
    )
    if text is not None:
        raise SealError(SealBreach(code="settings", message=text, runbook="SealBroken"))


def _list_runs(lake: PipelineLake, evidence: SealEvidence) -> list[BatchRun]:
    """Return the runs up to the compared one, oldest first."""
    all_runs = batch_runs.read_effective_runs(lake)
    return all_runs[: [run.run_id for run in all_runs].index(evidence.run.run_id) + 1]


def list_dimension_notes(evidence: SealEvidence) -> list[str]:
    """Return a note for each lookup with a version of the stream that batch could no longer read."""
    return [
        f"Lookup `{name}`: version {', '.join(map(str, replaced))} could no longer be read; batch joined these records "
        "with the latest one."
        for name, replaced in joined_versions.list_replaced_versions(evidence.run.dimensions).items()
    ]


def _list_suspects(lake: PipelineLake, evidence: SealEvidence, sides: Sides, recorded_spans: Spans) -> list[Suspects]:
    differing_groups(sides.connection, sides.layout, SharedTable.EXPECTED, stage(len(sides.merged)), into="suspected")
    runs = _list_runs(lake, evidence)
    if lake.pipeline.window.merges:
        _check_sessions(lake.pipeline, sides, recorded_spans, runs)
        return []
    windows = sides.connection.execute(
        f"SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM {SharedTable.WINDOWS}"
        " WHERE window_start IN (SELECT _group FROM suspected)"
    ).fetchall()
    suspects = []
    for run_number, run in enumerate(runs):
        run_windows = [start for start, end in windows if find_last_run(runs, start, end) == run_number]
        positions = [
            position
            for name, spans in recorded_spans.items()
            for position in joined_versions.find_diverging_offsets(spans, run.dimensions.get(name, ()))
        ]
        if run_windows and positions:
            suspects += find_suspects(lake, sides.connection, runs[: run_number + 1], run_windows, positions)
    return suspects


def _check_sessions(pipeline: Pipeline, sides: Sides, recorded_spans: Spans, runs: Sequence[BatchRun]) -> None:
    differing = fetch_number(sides.connection, "SELECT count(*) FROM suspected")
    if differing and any(
        joined_versions.find_diverging_offsets(spans, run.dimensions.get(name, ()))
        for run in runs
        for name, spans in recorded_spans.items()
    ):
        raise _make_unprovable_error(pipeline, "sessions are never folded again")


def find_last_run(runs: Sequence[BatchRun], start: int, end: int) -> int:
    """Return the position of the last run that computed a window; -1 if none did."""
    run_numbers = (i for i, run in enumerate(runs) if any(a <= start and end <= b for a, b in run.computed))
    return max(run_numbers, default=-1)


def find_suspects(
    lake: PipelineLake,
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[BatchRun],
    windows: Sequence[int],
    places: Sequence[tuple[int, int, int]],
) -> list[Suspects]:
    """Return the windows that may contain records at some positions, according to the index, with all their offsets."""
    delta.relation(connection, "ranges_of_runs", lake.batch_uri("batch_index"))
    ids = [run.run_id for run in runs]
    rows = connection.execute(
        "SELECT epoch_us(window_start), _partition, min(first_offset), max(last_offset) FROM ranges_of_runs"
        " WHERE _kind = ? AND list_contains(?, _run) AND list_contains(?, epoch_us(window_start)) GROUP BY ALL",
        [IndexKind.RANGE, ids, list(windows)],
    ).fetchall()
    affected = {
        start
        for start, partition, first_offset, last_offset in rows
        if any(
            changed_partition == partition and first_offset < end and last_offset >= begin
            for changed_partition, begin, end in places
        )
    }
    if not affected:
        return []
    reads: dict[int, tuple[int, int]] = {}
    for start, partition, first_offset, last_offset in rows:
        if start in affected:
            lowest, highest = reads.get(partition, (first_offset, last_offset + 1))
            reads[partition] = min(lowest, first_offset), max(highest, last_offset + 1)
    return [Suspects(run=runs[-1], windows=tuple(sorted(affected)), reads=reads)]


def _check_provable(lake: PipelineLake, rejoin: Rejoin, recorded_spans: Spans, suspects: Sequence[Suspects]) -> None:
    pipeline = lake.pipeline
    needed_spans = [
        {
            name: joined_versions.spans_to_read(spans_by_lookup[name], [suspect.reads], (0, ""))
            for name in pipeline.lookups
        }
        for suspect in suspects
        for spans_by_lookup in (recorded_spans, suspect.run.dimensions)
    ]
    unreadable = next(
        (reason for spans in needed_spans if (reason := rejoin.explain_unreadable(spans)) is not None), None
    )
    if unreadable is not None:
        raise _make_unprovable_error(pipeline, unreadable)
    client, run = LogClient(lake.settings), suspects[0].run
    log_id, earliest = client.describe(run.topic), client.earliest(run.topic)
    if (log_id.cluster_id, log_id.topic_id) != (run.cluster_id, run.topic_id):
        raise _make_unprovable_error(pipeline, f"topic `{run.topic}` was recreated and is a different log")
    for suspect in suspects:
        for partition, (offset, _) in suspect.reads.items():
            if offset < earliest.get(partition, 0):
                place = format_partition(run.topic, partition)
                raise _make_unprovable_error(
                    pipeline, f"{place}: the log no longer has the records from offset {offset} on"
                )


def _make_unprovable_error(pipeline: Pipeline, reason: str) -> SealError:
    text = (
        f"Pipeline `{pipeline.name}`: windows differ whose records the paths joined with different versions of a "
        f"dimension; this cause can be neither proven nor ruled out: {reason}"
    )
    return SealError(SealBreach(code="dimension", message=text.rstrip(".") + ".", runbook="DimensionChanged"))


def _add_stage(sides: Sides, windows: Sequence[int], further: Sequence[Class] = ()) -> Sides:
    """Add the stage in which batch's versions replace the stream's, for rows whose stream value the log confirms."""
    connection, layout, stage_number = sides.connection, sides.layout, len(sides.merged) + 1
    connection.register("suspected_windows", pa.table({"start": pa.array(windows, pa.int64())}))
    for class_count in range(len(further) + 1):
        _compare_folds(sides, class_count)
    moved_table = f"moved_{stage_number}"
    choices = " UNION ALL ".join(
        f"SELECT *, {class_count} AS __also FROM shown_{class_count}" for class_count in range(len(further) + 1)
    )
    # The first set of classes that makes a (window, key) equal to batch; if none does, the first that confirms it.
    connection.execute(
        f"CREATE TEMP TABLE {moved_table} AS SELECT * FROM ({choices})"
        f" QUALIFY row_number() OVER (PARTITION BY {key_columns(layout)} ORDER BY __is_off, __also) = 1"
    )
    if not fetch_number(connection, f"SELECT count(*) FROM {moved_table}"):
        return sides
    is_moved = f"EXISTS (SELECT 1 FROM {moved_table} m WHERE {layout.same_key('m', 'r')}"
    replaced = " UNION ALL BY NAME ".join(
        f"SELECT * FROM {table_with_classes(AS_BATCH, class_count)} r WHERE {is_moved} AND m.__also = {class_count})"
        for class_count in range(len(further) + 1)
    )
    connection.execute(
        f"CREATE TEMP VIEW {stage(stage_number)} AS SELECT * FROM {stage(stage_number - 1)} r WHERE NOT {is_moved})"
        f" UNION ALL BY NAME {replaced}"
    )
    return replace(sides, merged=(*sides.merged, DIMENSION))


def _compare_folds(sides: Sides, class_count: int) -> None:
    """Create `shown_<n>`: rows that versions change and whose stream value is confirmed with n further classes folded.

    Columns: the keys, `of_stream` and `of_batch` (records folded), `__is_off` (batch still has a different value).
    """
    connection, layout, keys = sides.connection, sides.layout, key_columns(sides.layout)
    as_stream, as_batch = (
        table_with_classes(AS_STREAM, class_count),
        table_with_classes(AS_BATCH, class_count),
    )
    is_suspected = "epoch_us(window_start) IN (SELECT start FROM suspected_windows)"
    names = (f"{SEEN}_{class_count}", f"expected_{class_count}")
    for name, table in zip(names, (stage(_MERGED + class_count), SharedTable.EXPECTED), strict=True):
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {table} WHERE {is_suspected}")
    diff_relations(connection, layout, as_stream, names[0], into=f"disproved_{class_count}")
    diff_relations(connection, layout, as_stream, as_batch, into=f"by_version_{class_count}")
    diff_relations(connection, layout, names[1], as_batch, into=f"off_{class_count}")
    folded_rows = (
        f"SELECT {keys}, _n AS of_stream, 0 AS of_batch FROM {as_stream} UNION ALL SELECT {keys}, 0, _n FROM {as_batch}"
    )
    exists = {
        name: f"EXISTS (SELECT 1 FROM {name}_{class_count} o WHERE {layout.same_key('o', 'j')})"
        for name in ("by_version", "disproved", "off")
    }
    connection.execute(
        f"CREATE TEMP TABLE shown_{class_count} AS"
        f" SELECT {keys}, sum(of_stream) AS of_stream, sum(of_batch) AS of_batch, {exists['off']} AS __is_off"
        f" FROM ({folded_rows}) j WHERE {exists['by_version']} AND NOT {exists['disproved']} GROUP BY ALL"
    )

"""Rows that differ because the paths joined the same records with different versions of a dimension, shown by a refold.

Where that may be, the records of the windows are read from the log and joined twice: with the versions that the
stream's epochs recorded, and with those that the batch run recorded. A (window, key) whose first result is what the
stream has, late rows merged, has the second one in a stage of its own; if that is what batch has, versions are the
cause. A team's SQL may count future rows and duplicates too: there both results are also made with these.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or ours

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.in_force import InForce
from cutover.engine.queries import number
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.dimensions import joined_versions
from cutover.lake.dimensions.rejoin import Rejoin, Spans
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import IndexKind
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition
from cutover.reconcile.attribution import refold
from cutover.reconcile.attribution.refold import RefoldPart
from cutover.reconcile.comparison.diff import diff
from cutover.reconcile.comparison.digests import differing_groups
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import DIMENSION, Sides, key_columns
from cutover.reconcile.preconditions import settings_in_force
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.seal import DimensionVersions, SealBreach
from cutover.records.classes import Class
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings

AS_STREAM, AS_BATCH, SEEN = "joined_as_stream", "joined_as_batch", "seen_by_stream"
_MERGED = 1  # the stage with late rows merged: what the stream has of every record that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Windows that differ and hold records which the two sides joined with different versions."""

    run: BatchRun  # that computed them
    windows: tuple[int, ...]  # starts, microseconds
    reads: Offsets  # that hold all their records


def stage_refold(settings: Settings, pipeline: Pipeline, evidence: SealEvidence, sides: Sides) -> Sides:
    """Return the sides, with one stage more where versions of a dimension are behind a difference.

    Raises:
        SealError: They may be, and that can be neither shown nor ruled out: a version or records are gone, or the
            session that folds anew has other settings in force.
    """
    if not pipeline.lookups:
        return sides
    rejoin = Rejoin(settings, pipeline)
    spans = rejoin.collect_recorded(evidence.records)
    suspects = _suspects(settings, pipeline, evidence, sides, spans)
    if not suspects:
        return sides
    _refuse_unshown(settings, pipeline, rejoin, spans, suspects)
    parts = [
        RefoldPart(windows=suspect.windows, reads=suspect.reads, by_stream=spans, by_batch=suspect.run.dimensions)
        for suspect in suspects
    ]
    further = () if sides.same_definition else tuple(map(Class, sides.merged[_MERGED:]))
    made_with = refold.make(sides.connection, settings, pipeline, parts, into=(AS_STREAM, AS_BATCH), further=further)
    _refuse_other_settings(pipeline, evidence, batch_runs.runs(settings, pipeline), made_with)
    return _with_stage(sides, [start for suspect in suspects for start in suspect.windows], further)


def versions(settings: Settings, pipeline: Pipeline, evidence: SealEvidence) -> tuple[DimensionVersions, ...]:
    """Return which versions both sides joined with, of batch in all runs so far."""
    if not pipeline.lookups:
        return ()
    spans = {
        name: [s for run in _runs(settings, pipeline, evidence) for s in run.dimensions.get(name, ())]
        for name in pipeline.lookups
    }
    return tuple(
        DimensionVersions(
            lookup=name,
            streaming=tuple(sorted({s.version for s in joined_versions.list_recorded_spans(evidence.records, name)})),
            batch=tuple(sorted({s.version for s in of})),
            gone=tuple(joined_versions.list_replaced_versions({name: of}).get(name, ())),
        )
        for name, of in spans.items()
    )


def _refuse_other_settings(
    pipeline: Pipeline, evidence: SealEvidence, runs: Sequence[BatchRun], made_with: InForce
) -> None:
    text = next(settings_in_force.of_session(pipeline, batch_runs.in_force(runs, evidence.run), made_with), None)
    if text is not None:
        raise SealError(SealBreach(code="settings", message=text, runbook="SealBroken"))


def _runs(settings: Settings, pipeline: Pipeline, evidence: SealEvidence) -> list[BatchRun]:
    """Oldest first, the compared run last."""
    known = batch_runs.runs(settings, pipeline)
    return known[: [run.run_id for run in known].index(evidence.run.run_id) + 1]


def notes(evidence: SealEvidence) -> list[str]:
    """Return a note for each lookup of which batch could not read a version that the stream had."""
    return [
        f"Lookup `{name}`: version {', '.join(map(str, version))} could no longer be read; batch joined these records "
        "with the newest one."
        for name, version in joined_versions.list_replaced_versions(evidence.run.dimensions).items()
    ]


def _suspects(
    settings: Settings, pipeline: Pipeline, evidence: SealEvidence, sides: Sides, spans: Spans
) -> list[Suspects]:
    differing_groups(sides.connection, sides.layout, SharedTable.EXPECTED, stage(len(sides.merged)), into="suspected")
    runs = _runs(settings, pipeline, evidence)
    if pipeline.window.merges:
        _refuse_sessions(pipeline, sides, spans, runs)
        return []
    windows = sides.connection.execute(
        f"SELECT DISTINCT epoch_us(window_start), epoch_us(window_end) FROM {SharedTable.WINDOWS}"
        " WHERE window_start IN (SELECT _group FROM suspected)"
    ).fetchall()
    found = []
    for position, run in enumerate(runs):
        of_run = [start for start, end in windows if last_over(runs, start, end) == position]
        places = [
            p
            for name, of in spans.items()
            for p in joined_versions.find_diverging_offsets(of, run.dimensions.get(name, ()))
        ]
        if of_run and places:
            found += find_suspects(settings, pipeline, sides.connection, runs[: position + 1], of_run, places)
    return found


def _refuse_sessions(pipeline: Pipeline, sides: Sides, spans: Spans, runs: Sequence[BatchRun]) -> None:
    differ = number(sides.connection, "SELECT count(*) FROM suspected")
    if differ and any(
        joined_versions.find_diverging_offsets(of, run.dimensions.get(name, ()))
        for run in runs
        for name, of in spans.items()
    ):
        raise _make_unshown_error(pipeline, "sessions are not folded anew")


def last_over(runs: Sequence[BatchRun], start: int, end: int) -> int:
    """Return the position of the last run that computed a window; -1: none did."""
    over = (i for i, run in enumerate(runs) if any(a <= start and end <= b for a, b in run.computed))
    return max(over, default=-1)


def find_suspects(
    settings: Settings,
    pipeline: Pipeline,
    connection: duckdb.DuckDBPyConnection,
    runs: Sequence[BatchRun],
    windows: Sequence[int],
    places: Sequence[tuple[int, int, int]],
) -> list[Suspects]:
    """Return the windows that may hold a record of some places, by the index, and where all their records lie."""
    delta.relation(connection, "ranges_of_runs", batch_uri(settings, pipeline, "batch_index"))
    ids = [run.run_id for run in runs]
    rows = connection.execute(
        "SELECT epoch_us(window_start), _partition, min(first_offset), max(last_offset) FROM ranges_of_runs"
        " WHERE _kind = ? AND list_contains(?, _run) AND list_contains(?, epoch_us(window_start)) GROUP BY ALL",
        [IndexKind.RANGE, ids, list(windows)],
    ).fetchall()
    touched = {
        start
        for start, partition, first, last in rows
        if any(p == partition and first < end and last >= begin for p, begin, end in places)
    }
    if not touched:
        return []
    reads: dict[int, tuple[int, int]] = {}
    for start, partition, first, last in rows:
        if start in touched:
            lowest, highest = reads.get(partition, (first, last + 1))
            reads[partition] = min(lowest, first), max(highest, last + 1)
    return [Suspects(run=runs[-1], windows=tuple(sorted(touched)), reads=reads)]


def _refuse_unshown(
    settings: Settings, pipeline: Pipeline, rejoin: Rejoin, recorded: Spans, suspects: Sequence[Suspects]
) -> None:
    needed = [
        {name: joined_versions.spans_to_read(of[name], [suspect.reads], (0, "")) for name in pipeline.lookups}
        for suspect in suspects
        for of in (recorded, suspect.run.dimensions)
    ]
    gone = next((why for spans in needed if (why := rejoin.explain_unreadable(spans)) is not None), None)
    if gone is not None:
        raise _make_unshown_error(pipeline, gone)
    client, run = LogClient(settings), suspects[0].run
    log, earliest = client.describe(run.topic), client.earliest(run.topic)
    if (log.cluster_id, log.topic_id) != (run.cluster_id, run.topic_id):
        raise _make_unshown_error(pipeline, f"topic `{run.topic}` is another log by now")
    for suspect in suspects:
        for partition, (first, _) in suspect.reads.items():
            if first < earliest.get(partition, 0):
                place = format_partition(run.topic, partition)
                raise _make_unshown_error(pipeline, f"{place}: records from offset {first} on have left the log")


def _make_unshown_error(pipeline: Pipeline, why: str) -> SealError:
    text = (
        f"Pipeline `{pipeline.name}`: windows differ whose records the paths joined with different versions of a "
        f"dimension; whether that is the cause cannot be shown: {why}"
    )
    return SealError(SealBreach(code="dimension", message=text.rstrip(".") + ".", runbook="DimensionChanged"))


def _with_stage(sides: Sides, windows: Sequence[int], further: Sequence[Class] = ()) -> Sides:
    """Add the stage in which batch's versions take the place of the stream's, where the stream's are borne out."""
    connection, layout, at = sides.connection, sides.layout, len(sides.merged) + 1
    connection.register("suspected_windows", pa.table({"start": pa.array(windows, pa.int64())}))
    for also in range(len(further) + 1):
        _compare_folds(sides, also)
    moved = f"moved_{at}"
    choices = " UNION ALL ".join(f"SELECT *, {also} AS __also FROM shown_{also}" for also in range(len(further) + 1))
    # The first set of classes that makes a (window, key) equal to batch; where none does, the first that bears it out.
    connection.execute(
        f"CREATE TEMP TABLE {moved} AS SELECT * FROM ({choices})"
        f" QUALIFY row_number() OVER (PARTITION BY {key_columns(layout)} ORDER BY __is_off, __also) = 1"
    )
    if not number(connection, f"SELECT count(*) FROM {moved}"):
        return sides
    there = f"EXISTS (SELECT 1 FROM {moved} m WHERE {layout.same_key('m', 'r')}"
    replaced = " UNION ALL BY NAME ".join(
        f"SELECT * FROM {refold.counting(AS_BATCH, also)} r WHERE {there} AND m.__also = {also})"
        for also in range(len(further) + 1)
    )
    connection.execute(
        f"CREATE TEMP VIEW {stage(at)} AS SELECT * FROM {stage(at - 1)} r WHERE NOT {there})"
        f" UNION ALL BY NAME {replaced}"
    )
    return replace(sides, merged=(*sides.merged, DIMENSION))


def _compare_folds(sides: Sides, also: int) -> None:
    """Make `shown_<also>`: where the versions make a difference and the stream's are borne out, so many classes folded.

    Its columns: the keys, `of_stream` and `of_batch` (records folded), `__is_off` (batch has something else yet).
    """
    connection, layout, keys = sides.connection, sides.layout, key_columns(sides.layout)
    as_stream, as_batch = refold.counting(AS_STREAM, also), refold.counting(AS_BATCH, also)
    inside = "epoch_us(window_start) IN (SELECT start FROM suspected_windows)"
    names = (f"{SEEN}_{also}", f"expected_{also}")
    for name, whole in zip(names, (stage(_MERGED + also), SharedTable.EXPECTED), strict=True):
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {whole} WHERE {inside}")
    diff(connection, layout, as_stream, names[0], into=f"disproved_{also}")
    diff(connection, layout, as_stream, as_batch, into=f"by_version_{also}")
    diff(connection, layout, names[1], as_batch, into=f"off_{also}")
    both = (
        f"SELECT {keys}, _n AS of_stream, 0 AS of_batch FROM {as_stream} UNION ALL SELECT {keys}, 0, _n FROM {as_batch}"
    )
    there = {
        name: f"EXISTS (SELECT 1 FROM {name}_{also} o WHERE {layout.same_key('o', 'j')})"
        for name in ("by_version", "disproved", "off")
    }
    connection.execute(
        f"CREATE TEMP TABLE shown_{also} AS SELECT {keys}, sum(of_stream) AS of_stream, sum(of_batch) AS of_batch,"
        f" {there['off']} AS __is_off FROM ({both}) j"
        f" WHERE {there['by_version']} AND NOT {there['disproved']} GROUP BY ALL"
    )

"""Table of a team's batch job against the batch path's rows, both up to the offsets that the job has recorded.

Cutover's batch path computes the rows at the cut of the comparison, and the job has read up to its own position. The
index of the batch path tells for each window which offsets hold its records. So a window has the same rows at both if
all of its records are before the position, and none at the position if all of them are after it. A window with records
on both sides is judged by rows that the batch run computed at the position; without them it is counted as not judged.

Something else than the job may have made rows differ. The offsets of a position without a topic id are those of another
log if the topic was deleted and created again. Rows that were deleted from a table without versions leave no trace. In
PostgreSQL, a transaction that had begun before the job's may have changed rows and ended after it, and looks like an
earlier run of the job. Where it is proven that none of them has happened there is no doubt, where it is proven that one
has the table is not comparable, and else the verdict names it.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or internal

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from deltalake import DeltaTable

from cutover.counts import count_clause, count_noun
from cutover.definition.compile.fingerprint import job_fingerprints
from cutover.definition.model.batch_job import BatchJob, describe_job_table, find_batch_job
from cutover.definition.model.pipeline import WINDOW_START
from cutover.engine.queries import fetch_number
from cutover.errors import CutoverError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import JobRowsNote, open_job_rows
from cutover.lake.control.losses import list_losses
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import BATCH_INDEX, IndexKind, batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.positions.batch_table import BoundJobTable, bind_job_table
from cutover.positions.position import Position, PositionLevel, UnknownPosition, format_topic_offsets
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.job_table import (
    JobCounts,
    JobLink,
    choose_level,
    compare_link,
    compare_streaming_job,
    is_among_sql,
    reject_job_table,
)
from cutover.reconcile.comparison.layout import SharedTable
from cutover.reconcile.comparison.sides import Sides
from cutover.reconcile.comparison.typed_texts import create_typed_rows
from cutover.reconcile.preconditions.seal import SealError, SealEvidence
from cutover.reconcile.result.finding import AHEAD_OF_CUT
from cutover.reconcile.result.parts import JobTable
from cutover.sources.binding import open_binder
from cutover.timestamps import parse_micros

_SENT, _WINDOWS, _EXPECTED = "batch_job_sent", "batch_job_windows", "batch_job_expected"
_AT_POSITION = "batch_job_rows_at_position"
RULES_PREFIX = "batch_rules"
"""Prefix of the relations that compare rows with the rules of a batch job and without."""

_WHOLE = "batch_job_whole_windows"  # those of which all records are before the position
_ComputedRows = tuple[JobRowsNote, DeltaTable]

BEFORE, AFTER, ACROSS, BETWEEN = "before", "after", "across", "between"
"""Where the records of a window are: before the position, after it, on both sides, or between its two bounds."""

COMPUTED = "computed"
"""Place of a window whose rows at the position a batch run has computed, wherever its records are."""

_PLACE_WINDOWS = f"""
    CREATE TEMP TABLE {_WINDOWS} AS
    SELECT window_start,
        CASE WHEN bool_or(lower < upper AND last_offset >= lower AND first_offset < upper) THEN '{BETWEEN}'
        WHEN NOT bool_or(last_offset >= upper) THEN '{BEFORE}'
        WHEN NOT bool_or(first_offset < lower) THEN '{AFTER}' ELSE '{ACROSS}' END AS place
    FROM batch_job_index JOIN batch_job_bounds USING (_partition)
    SEMI JOIN (SELECT unnest($runs::VARCHAR[]) AS _run) USING (_run)
    WHERE _kind = '{IndexKind.RANGE}'
    GROUP BY window_start
"""


def compare_jobs(
    lake: PipelineLake, evidence: SealEvidence, sides: Sides, *, listed: str = "true"
) -> tuple[JobTable, ...]:
    """Compare the tables of the team's own jobs, the streaming one first.

    Args:
        lake: Pipeline of the jobs.
        evidence: The cut.
        sides: Open comparison.
        listed: SQL over `window_start` and the key: the rows whose cells are listed.

    Raises:
        SealError: A table cannot be compared.
    """
    jobs = (
        compare_streaming_job(lake, evidence, sides, listed=listed),
        compare_batch_job(lake, evidence, sides, listed=listed),
    )
    return tuple(job for job in jobs if job is not None)


def compare_batch_job(
    lake: PipelineLake, evidence: SealEvidence, sides: Sides, *, listed: str = "true"
) -> JobTable | None:
    """Compare the table of a pipeline's batch job at its own position; None if there is no such job, or in an audit.

    Raises:
        SealError: The table cannot be compared: its position is unknown or beyond the cut, or it cannot be read.
    """
    job = find_batch_job(lake.pipeline.batch)
    if job is None or lake.settings.batch_tables:  # of an audit, which has computed a few windows alone
        return None
    link = JobLink(
        side="batch",
        place=describe_job_table(job.table),
        columns=job.columns,
        expected=_EXPECTED,
        listed=listed,
        is_judged=is_judged_sql(),
    )
    with open_binder(sides.connection, lake.settings) as binder:
        try:
            with bind_job_table(binder, _SENT, job) as table:
                if isinstance(table, UnknownPosition):
                    raise reject_job_table(link, f"expected a position that the job has recorded: {table.reason}")
                if table.time_format is None:
                    _create_raw(sides, link, table)
                else:
                    create_typed_rows(lake, sides, link, table, _SENT)
                marked = replace(link, is_later=table.is_later, is_earlier=table.is_earlier)
                return _compare(lake, evidence, sides, marked, table)
        except SealError:
            raise
        except CutoverError as error:
            raise reject_job_table(link, f"expected rows with their position, got: {error.text}") from error


def _create_raw(sides: Sides, link: JobLink, table: BoundJobTable) -> None:
    """Create the relation of the job's table, in which numbers without a limit have as many digits as their texts."""
    replaced = []
    for name in sorted(table.untyped):
        column = identifier(name)
        scale = fetch_number(
            sides.connection, f"SELECT coalesce(max(length(split_part({column}, '.', 2))), 0) FROM {_SENT}"
        )
        # Of a text that fits into no decimal, such as NaN, the cast fails when the rows are read.
        replaced.append(f"CAST({column} AS DECIMAL(38, {min(scale, 38)})) AS {column}")
    columns = f"* REPLACE ({', '.join(replaced)})" if replaced else "*"
    sides.connection.execute(f"CREATE TEMP VIEW {link.raw} AS SELECT {columns} FROM {_SENT}")


def _compare(lake: PipelineLake, evidence: SealEvidence, sides: Sides, link: JobLink, table: BoundJobTable) -> JobTable:
    job = find_batch_job(lake.pipeline.batch)
    _place_windows(lake, evidence, sides, link, table.position)
    expected = f"SELECT * FROM {SharedTable.EXPECTED} WHERE {WINDOW_START} NOT IN {_select_windows(AFTER, COMPUTED)}"
    computed = f"{WINDOW_START} IN {_select_windows(COMPUTED)} AND {sides.is_compared}"
    expected += f" UNION ALL BY NAME SELECT * FROM {_AT_POSITION} WHERE {computed}"
    sides.connection.execute(f"CREATE TEMP VIEW {_EXPECTED} AS {expected}")
    by_rules = _count_by_rules(lake, sides, job)
    counts = compare_link(lake, sides, link)
    if counts.later and not counts.rows:
        text = (
            "expected rows of the transaction that recorded the position, or of earlier ones, got later ones alone: of"
        )
        raise reject_job_table(link, f"{text} another writer, or of a savepoint. docs/positions.md has the statements")
    undecided = fetch_number(sides.connection, f"SELECT count(*) FROM {_EXPECTED} WHERE NOT ({link.is_judged})")
    not_judged = undecided + counts.later
    topic_doubt = find_topic_doubt(lake, evidence, link, table) if counts.different else None
    deletion_doubt = find_deletion_doubt(sides, link, table, counts) if counts.missing else None
    earlier = count_earlier_rows(lake, sides, link)
    doubted = earlier + (0 if deletion_doubt is None else counts.missing)
    return JobTable(
        side="batch",
        level=choose_level(counts, not_judged=not_judged),
        batch=None,
        fingerprint=job_fingerprints(lake.pipeline)["batch"],
        position=format_topic_offsets(table.position.topics, table.position.upto),
        version=table.version,
        rows=counts.rows,
        different=counts.different,
        missing=counts.missing,
        written_later=counts.later,
        is_attributed=not counts.different or (topic_doubt is None and doubted < counts.different),
        doubts=tuple(doubt for doubt in (topic_doubt, deletion_doubt, describe_earlier_rows(earlier)) if doubt),
        values=counts.values,
        different_values=counts.different_values,
        not_judged=not_judged,
        rules="" if job is None else job.describe_rules(),
        by_rules=0 if by_rules is None else by_rules.different,
        values_by_rules=0 if by_rules is None else by_rules.different_values,
        cells=counts.cells,
    )


def _count_by_rules(lake: PipelineLake, sides: Sides, job: BatchJob | None) -> JobCounts | None:
    """Count the rows that the rules of a job make different from the definition's; None: the job has no rules.

    Both sides are computed from the same records, those of windows that lie before the position as a whole, so that
    nothing but the rules makes them differ.
    """
    if job is None or not job.has_rules:
        return None
    whole = f"{WINDOW_START} IN (SELECT {WINDOW_START} FROM {_WHOLE})"
    link = JobLink(
        side="batch",
        place="rows at the position",
        columns={},
        expected=SharedTable.EXPECTED,
        is_judged=f"{whole} AND {WINDOW_START} IN {_select_windows(COMPUTED)}",
        prefix=RULES_PREFIX,
    )
    sides.connection.execute(f"CREATE TEMP VIEW {link.raw} AS SELECT * FROM {_AT_POSITION}")
    return compare_link(lake, sides, link)


def is_judged_sql() -> str:
    """Return SQL that is true for a window of which the batch job's rows can be judged."""
    return f"{WINDOW_START} NOT IN {_select_windows(ACROSS, BETWEEN)}"


def select_whole_windows() -> str:
    """Return the query of the windows of which all records are before the position."""
    return f"(SELECT {WINDOW_START} FROM {_WHOLE})"


def _select_windows(*places: str) -> str:
    return f"(SELECT {WINDOW_START} FROM {_WINDOWS} WHERE place IN ({', '.join(map(literal, places))}))"


def _place_windows(lake: PipelineLake, evidence: SealEvidence, sides: Sides, link: JobLink, position: Position) -> None:
    """Create the table that tells for each window with records where they are.

    Raises:
        SealError: The position is that of another topic, or beyond the cut.
    """
    computed_rows = _find_computed_rows(lake, evidence, position)
    bounds = _list_bounds(lake.pipeline.source.name, evidence, link, position, computed_rows)
    columns = {"_partition": pa.int32(), "lower": pa.int64(), "upper": pa.int64()}
    rows = [dict(zip(columns, row, strict=True)) for row in bounds]
    connection = sides.connection
    connection.register("batch_job_bounds", pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items()))))
    uri = lake.batch_uri("batch_index")
    if delta.exists(uri):
        delta.relation(connection, "batch_job_index", uri)
    else:
        connection.register("batch_job_index", BATCH_INDEX.empty_table())
    # Only runs of this log: a row of another one would place a window where its records are not.
    runs = [run.run_id for run in batch_runs.read_effective_runs(lake) if run.topic_id == evidence.run.topic_id]
    connection.execute(_PLACE_WINDOWS, {"runs": runs})
    is_unknown = f"{WINDOW_START} NOT IN (SELECT {WINDOW_START} FROM {_WINDOWS})"
    unknown = f"SELECT DISTINCT {WINDOW_START}, '{BETWEEN}' FROM {SharedTable.EXPECTED} WHERE {is_unknown}"
    connection.execute(f"INSERT INTO {_WINDOWS} {unknown}")
    connection.execute(f"CREATE TEMP TABLE {_WHOLE} AS SELECT {WINDOW_START} FROM {_WINDOWS} WHERE place = '{BEFORE}'")
    _bind_computed(lake, sides, computed_rows)
    job = find_batch_job(lake.pipeline.batch)
    if job is not None and job.has_rules:  # a window whose rows were not computed with them cannot be judged
        connection.execute(f"UPDATE {_WINDOWS} SET place = '{ACROSS}' WHERE place = '{BEFORE}'")


def _find_computed_rows(lake: PipelineLake, evidence: SealEvidence, position: Position) -> _ComputedRows | None:
    """Find the rows that a batch run has computed at an exact position; None: there are none."""
    found = open_job_rows(lake)
    lower = position.topics.get(lake.pipeline.source.name)
    if found is None or position.level is not PositionLevel.EXACT:
        return None
    note, job = found[0], find_batch_job(lake.pipeline.batch)
    is_of_position = (note.topic_id, note.ends) == (evidence.run.topic_id, lower)
    return found if is_of_position and job is not None and note.rules == job.describe_rules() else None


def _bind_computed(lake: PipelineLake, sides: Sides, rows: _ComputedRows | None) -> None:
    """Bind the rows at the position, and mark their windows."""
    if rows is None:
        sides.connection.register(_AT_POSITION, batch_schema(lake.pipeline).empty_table())
        return
    note, table = rows
    delta.bind(sides.connection, _AT_POSITION, table)
    starts = pa.table({"start": pa.array(sorted(note.windows), pa.int64())})
    sides.connection.register("batch_job_computed", starts)
    computed = "SELECT make_timestamptz(start) AS window_start FROM batch_job_computed"
    sides.connection.execute(f"DELETE FROM {_WINDOWS} WHERE {WINDOW_START} IN ({computed})")
    sides.connection.execute(f"INSERT INTO {_WINDOWS} SELECT window_start, '{COMPUTED}' FROM ({computed})")


def _list_bounds(
    topic: str, evidence: SealEvidence, link: JobLink, position: Position, rows: _ComputedRows | None
) -> list[tuple[int, int, int]]:
    """Return partition, lower and upper bound of the position; a partition that it does not name has no bounds.

    Raises:
        SealError: The position is that of another topic, or beyond the cut.
    """
    run, topic_id = evidence.run, position.topic_ids.get(topic)
    lower = position.topics.get(topic)
    if lower is None:
        raise reject_job_table(
            link, f"expected a position of topic `{topic}`, got {', '.join(sorted(position.topics))}"
        )
    if topic_id not in {None, run.topic_id}:
        raise reject_job_table(link, f"expected a position of topic id {run.topic_id}, got {topic_id}: another log")
    upper: Mapping[int, int] = lower if position.upto is None else position.upto[topic]
    has_rows_beyond = rows is not None and rows[0].run_id == run.run_id
    for partition, end in sorted(upper.items()):
        if end > run.cut.get(partition, 0) and not has_rows_beyond:
            text = f"expected a position up to the cut, at offset {run.cut.get(partition, 0)} of partition {partition},"
            text += f" got {end}: it can be compared once the stream has read these records, too"
            raise reject_job_table(link, text, code=AHEAD_OF_CUT)
    return [(p, lower.get(p, 0), upper.get(p, end)) for p, end in sorted(run.cut.items())]


_RECORD_IDS = "record `CUTOVER_POSITION`, which has the topic's id"


def find_topic_doubt(lake: PipelineLake, evidence: SealEvidence, link: JobLink, table: BoundJobTable) -> str | None:
    """Find why the offsets of a position may be those of an earlier topic of this name; None: they are not.

    A position that was recorded after the topic with its present id was first seen is one of this topic.

    Raises:
        SealError: The topic was created again, and the position may have been recorded before.
    """
    topic, run = lake.pipeline.source.name, evidence.run
    if topic in table.position.topic_ids:  # compared with the id of the cut before
        return None
    runs = batch_runs.read_recorded_runs(lake)
    seen = [other.finished for other in runs if other.topic_id == run.topic_id]
    seen += [record.processing_time for record in evidence.records if record.topic_id == run.topic_id][:1]
    first_seen = min((parse_micros(time) for time in seen if time), default=None)
    if None not in {first_seen, table.recorded_at} and (table.recorded_at or 0) >= (first_seen or 0):
        return None
    earlier_ids = {other.topic_id for other in runs} | {loss.topic_id for loss in list_losses(lake)}
    if earlier_ids - {run.topic_id}:
        text = f"expected a position with the id of topic `{topic}`, which was created again, got offsets that may be"
        raise reject_job_table(link, f"{text} those of the earlier topic; {_RECORD_IDS}")
    return (
        f"Its position has no topic id: if topic `{topic}` was created again since, its offsets mean other records;"
        f" {_RECORD_IDS}."
    )


def find_deletion_doubt(sides: Sides, link: JobLink, table: BoundJobTable, counts: JobCounts) -> str | None:
    """Find why rows that a table lacks may have been deleted after the job recorded its position; None: they were not.

    A table with versions is read as the job has left it. Of another one, the number of rows tells, if it was recorded.

    Raises:
        SealError: Only rows are missing, and as many have been deleted, or more.
    """
    recorded = table.position.table_rows
    if table.version is not None or table.shows_deletions:
        return None
    deleted = 0 if recorded is None else recorded - fetch_number(sides.connection, f"SELECT count(*) FROM {link.raw}")
    if recorded is not None and not deleted and not counts.later:
        return None
    if deleted > 0 and not counts.later and counts.missing == counts.different and counts.missing <= deleted:
        text = f"expected the {count_noun(recorded or 0, 'row')} that the job has recorded with its position, got"
        raise reject_job_table(link, f"{text} {deleted:,} fewer: another writer deleted rows")
    return (
        f"The table lacks {count_noun(counts.missing, 'row')}: the job does not write them, or they were deleted after"
        " it recorded its position."
    )


def count_earlier_rows(lake: PipelineLake, sides: Sides, link: JobLink) -> int:
    """Count the rows that differ and are of an earlier transaction than that which recorded the position."""
    if link.is_earlier is None:
        return 0
    is_earlier = is_among_sql(lake, link.earlier, "a")
    return fetch_number(sides.connection, f"SELECT count(*) FROM {link.apart} a WHERE NOT is_missing AND {is_earlier}")


def describe_earlier_rows(count: int) -> str | None:
    """Describe that rows may have been written after the position by an earlier transaction; None: there are none."""
    if not count:
        return None
    return (
        f"{count_clause(count, 'row', 'is', 'are')} of an earlier transaction than the position: an earlier run of the"
        " job wrote them, or a transaction that had begun before the job's and ended after it. A server with"
        " `track_commit_timestamp = on` tells these apart."
    )

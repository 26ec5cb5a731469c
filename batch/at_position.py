"""Rows at the position of a team's batch job, for the windows whose rows at the cut of a run are others.

A window whose records are all before the position has the same rows at both, and one whose records are all after it has
none at the position. Those with records on both sides are computed here, from the log up to the position. A job may
also have read beyond the cut: then the records up to its position show which further windows they belong to.

If the job has rules of its own, the rows of all windows are others than at the cut. They are computed with these rules,
and those of earlier runs stay for windows without a record between the two positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from cutover.batch.context import RunContext
from cutover.batch.read import scan
from cutover.definition.model.batch_job import BatchJob, find_batch_job, make_job_definition
from cutover.engine import queries
from cutover.errors import CutoverError
from cutover.events import log
from cutover.lake.batch_runs import JobRowsNote, open_job_rows, replace_job_rows
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema, map_arrow_type_to_duckdb
from cutover.positions.batch_table import find_job_position
from cutover.positions.position import Position, PositionLevel
from cutover.quoting import identifier
from cutover.records.fold import finish_sql
from cutover.records.reading.scan import Offsets, OffsetSpan, plan_reads

_BEYOND, _UP_TO = "beyond_cut", "up_to_position"
_ENDS, _WINDOWS = "job_ends", "job_windows"

_ACROSS = f"""
    CREATE OR REPLACE TEMP TABLE {_WINDOWS} AS
    SELECT window_start, min(first_offset - coalesce(retained, 0)) < 0 AS is_expired
    FROM ranges JOIN {_ENDS} ON partition = _partition
    GROUP BY window_start HAVING bool_or(first_offset < job_end) AND ($has_rules OR bool_or(last_offset >= job_end))
"""  # noqa: S608 -- constants

_UNCHANGED = f"""
    SELECT window_start FROM {_WINDOWS} ANTI JOIN (
        SELECT window_start FROM ranges JOIN {_ENDS} ON partition = _partition
        WHERE last_offset >= coalesce(earlier_end, 0) AND first_offset < job_end
    ) USING (window_start)
"""  # noqa: S608 -- constants
"""Windows that have no record between an earlier position and the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAtPosition:
    """Rows that a run computed at a position, before they are published."""

    note: JobRowsNote
    rows: pa.Table


def compute_rows_at_position(work: RunContext) -> RowsAtPosition | None:
    """Compute the rows that a job's table is compared with; None: no job, no exact position, or nothing new.

    Why a position is not known is what the comparison reports, so that it never ends a run.

    Raises:
        LogError: Records are missing that were read before.
        OtherSettings: The runs that this one builds on used other settings.
    """
    ends = _find_ends(work)
    if ends is None:
        return None
    job, topic_id = work.pipeline.batch, work.target.record.topic_id
    rules = job.describe_rules() if isinstance(job, BatchJob) else ""
    recorded = open_job_rows(work.lake)
    is_other = recorded is not None and (recorded[0].topic_id, recorded[0].rules) != (topic_id, rules)
    if is_other or work.replaces_earlier_runs:
        recorded = None
    _bind_ends(work, ends, {} if recorded is None else recorded[0].ends)
    beyond = {p: (cut, ends[p]) for p, cut in sorted(work.target.record.end.items()) if ends[p] > cut}
    work.connection.execute(_ACROSS, {"has_rules": bool(rules)})
    retained = _take_unchanged(work, recorded[0]) if recorded is not None and rules else frozenset[int]()
    if beyond:
        _add_windows_beyond(work, beyond)
    windows = frozenset(_list_windows(work))
    retained -= windows
    note = JobRowsNote(run_id=work.run_id, topic_id=topic_id, ends=ends, windows=windows | retained, rules=rules)
    if recorded is not None and not beyond and recorded[0].ends == ends and note.windows <= recorded[0].windows:
        return None
    rows = _compute(work, beyond) if windows else batch_schema(work.pipeline).empty_table()
    work.check_reads()
    if recorded is not None and retained:
        rows = pa.concat_tables([rows, _read_rows(work, recorded[1], retained)])
    return RowsAtPosition(note=note, rows=rows)


def _take_unchanged(work: RunContext, earlier: JobRowsNote) -> frozenset[int]:
    """Take the windows whose rows an earlier run has computed, and to which no record was added, from those to compute.

    A position that went back has fewer records: then no window is taken.
    """
    has_retreated = queries.fetch_row(work.connection, f"SELECT bool_or(earlier_end > job_end) FROM {_ENDS}")[0]  # noqa: S608 -- a constant
    if has_retreated:
        return frozenset()
    unchanged = {int(start) for (start,) in work.connection.execute(_UNCHANGED).fetchall()} & earlier.windows
    taken = pa.table({"start": pa.array(sorted(unchanged), pa.int64())})
    work.connection.register("job_windows_taken", taken)
    work.connection.execute(f"DELETE FROM {_WINDOWS} WHERE window_start IN (SELECT start FROM job_windows_taken)")  # noqa: S608 -- a constant
    return frozenset(unchanged)


def _read_rows(work: RunContext, table: DeltaTable, windows: frozenset[int]) -> pa.Table:
    """Read the rows of some windows that an earlier run has computed."""
    delta.bind(work.connection, "job_rows_before", table)
    schema = batch_schema(work.pipeline)
    columns = ", ".join(identifier(field.name) for field in schema)
    starts = ", ".join(map(str, sorted(windows)))
    query = f"SELECT {columns} FROM job_rows_before WHERE epoch_us(window_start) IN ({starts}) ORDER BY ALL"  # noqa: S608 -- quoted
    return queries.query_table(work.connection, query).cast(schema)


def publish_rows_at_position(work: RunContext, computed: RowsAtPosition | None) -> None:
    """Publish the rows of a recorded run."""
    if computed is not None:
        replace_job_rows(work.lake, computed.note, computed.rows)
        log.info(
            "job_rows_committed",
            pipeline=work.pipeline.name,
            windows=len(computed.note.windows),
            rows=computed.rows.num_rows,
        )


def _find_ends(work: RunContext) -> Mapping[int, int] | None:
    """Find the exact offsets up to which the job has read every partition of the cut; None: they are not known."""
    job = find_batch_job(work.pipeline.batch)
    if job is None or work.lake.settings.batch_tables:  # of an audit: nothing is compared with the job
        return None
    try:
        position = find_job_position(job, work.lake.settings).position
    except CutoverError as error:
        log.warning("job_position_unknown", pipeline=work.pipeline.name, why=error.text.partition("\n")[0])
        return None
    topic, record = work.pipeline.source.name, work.target.record
    if not isinstance(position, Position) or position.level is not PositionLevel.EXACT:
        return None
    ends = dict(position.topics.get(topic, {}))
    is_same_topic = position.topic_ids.get(topic) in {None, record.topic_id}
    latest = work.client.latest(topic, work.pipeline.source.isolation)
    is_in_log = all(end <= latest.get(partition, 0) for partition, end in ends.items())
    return ends if is_same_topic and is_in_log and ends.keys() >= record.end.keys() else None


def _bind_ends(work: RunContext, ends: Mapping[int, int], earlier_ends: Mapping[int, int]) -> None:
    names = ("partition", "job_end", "retained", "earlier_end")
    columns = {name: pa.int64() for name in names} | {"partition": pa.int32()}
    rows = [
        dict(zip(names, (p, end, work.earliest.get(p), earlier_ends.get(p)), strict=True))
        for p, end in sorted(ends.items())
    ]
    work.connection.register(_ENDS, pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items()))))


def _add_windows_beyond(work: RunContext, beyond: Offsets) -> None:
    """Add the windows of records after the cut that the job has read."""
    reads = (beyond,)
    partials = scan.aggregate_records(work.records(reads), work.pipeline, work.dimensions(reads))
    work.staged.write(_BEYOND, partials)
    work.connection.execute(f"""
        INSERT INTO {_WINDOWS} SELECT DISTINCT epoch_us(window_start), false FROM {_BEYOND}
        WHERE _class = 'accepted' AND epoch_us(window_start) NOT IN (SELECT window_start FROM {_WINDOWS})
    """)  # noqa: S608 -- constants
    work.connection.execute(f"""
        UPDATE {_WINDOWS} SET is_expired = true WHERE window_start IN (
            SELECT window_start FROM ranges JOIN {_ENDS} ON partition = _partition
            WHERE first_offset < coalesce(retained, 0))
    """)  # noqa: S608 -- constants


def _list_windows(work: RunContext) -> Sequence[int]:
    """Drop the windows of which records have left the log, and list the others."""
    work.connection.execute(f"DELETE FROM {_WINDOWS} WHERE is_expired")  # noqa: S608 -- a constant
    query = f"SELECT window_start FROM {_WINDOWS} ORDER BY window_start"  # noqa: S608 -- a constant
    return [int(start) for (start,) in work.connection.execute(query).fetchall()]


def _compute(work: RunContext, beyond: Offsets) -> pa.Table:
    """Read the records of the windows up to the position, and compute their rows."""
    query = f"""
        SELECT _partition, first_offset, least(last_offset, job_end - 1)
        FROM ranges SEMI JOIN {_WINDOWS} USING (window_start) JOIN {_ENDS} ON partition = _partition
        WHERE first_offset < job_end
    """  # noqa: S608 -- constants
    spans = [
        OffsetSpan(partition=partition, first_offset=first, last_offset=last)
        for partition, first, last in work.connection.execute(query).fetchall()
    ]
    spans += [OffsetSpan(partition=p, first_offset=start, last_offset=end - 1) for p, (start, end) in beyond.items()]
    reads = plan_reads(spans)
    records, dimensions = work.records(reads), work.dimensions(reads)
    job = find_batch_job(work.pipeline.batch)
    pipeline = work.pipeline if job is None else make_job_definition(work.pipeline, job)
    if scan.can_detect_duplicates(pipeline):
        scan.count_once(records, pipeline, work.staged, dimensions, view=_UP_TO)
    else:
        work.staged.write(_UP_TO, scan.aggregate_records(records, pipeline, dimensions))
    partials = f"SELECT * FROM {_UP_TO} WHERE epoch_us(window_start) IN (SELECT window_start FROM {_WINDOWS})"  # noqa: S608 -- constants
    schema = batch_schema(work.pipeline)
    columns = ", ".join(
        f"{identifier(field.name)}::{map_arrow_type_to_duckdb(field.type)} AS {identifier(field.name)}"
        for field in schema
    )
    epoch = int(work.target.record.epoch)
    rows = f"SELECT *, {epoch}::BIGINT AS _epoch FROM ({finish_sql(work.pipeline, f'({partials})')})"  # noqa: S608 -- ours
    return queries.query_table(work.connection, f"SELECT {columns} FROM ({rows}) ORDER BY ALL").cast(schema)  # noqa: S608 -- quoted

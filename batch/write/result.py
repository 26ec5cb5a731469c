"""Compute the planned windows, in the batch table's columns, without publishing them."""

from collections.abc import Sequence

import pyarrow as pa

from cutover.batch.context import RetainedRows, RunContext
from cutover.batch.plan.dirty import RunPlan
from cutover.batch.read import index, scan, sql
from cutover.batch.write.replace import read_rows_outside
from cutover.definition.model.pipeline import SameDefinition
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.lake.batch_runs import Range
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema, duckdb_type
from cutover.quoting import identifier
from cutover.records.fold import WINDOW, finish_sql
from cutover.records.reading import segments

STAGED, WINDOWS = "staged", "wanted_windows"


def stage_result(work: RunContext, plan: RunPlan) -> None:
    """Make the table `staged`: the rows of the planned windows, `_epoch` the cut's.

    Rows come from the log alone. What this run scanned is at hand; records of these windows that an earlier run scanned
    are read again, by the ranges of the index.
    """
    fields = [pa.field(name, pa.int64()) for name in WINDOW]
    planned = [dict(zip(WINDOW, window, strict=True)) for window in plan.compute]
    work.connection.register(WINDOWS, pa.Table.from_pylist(planned, schema=pa.schema(fields)))
    if not plan.compute:
        nothing = f"SELECT *, 0 AS {scan.CONFLICTS} FROM {scan.SCAN} LIMIT 0"  # noqa: S608 -- internal names
        work.connection.execute(f"CREATE TEMP VIEW {scan.COUNTED} AS {nothing}")
        stage_rows(work, None)
    else:
        is_same_definition = isinstance(work.pipeline.batch, SameDefinition)
        stage_rows(work, _same_definition(work) if is_same_definition else _team_sql(work, plan))
        _reject_emptied(work)


def stage_rows(work: RunContext, query: str | None) -> None:
    """Make the table `staged` of a query's rows, in the batch table's columns and types; None: of none."""
    query = query or f"SELECT * FROM {_bind_no_rows(work)}"  # noqa: S608 -- an internal name
    columns = ", ".join(
        f"{identifier(field.name)}::{duckdb_type(field.type)} AS {identifier(field.name)}"
        for field in batch_schema(work.pipeline)
    )
    work.connection.execute(f"CREATE TEMP TABLE {STAGED} AS SELECT {columns} FROM ({query})")  # noqa: S608 -- quoted


def read_staged_rows(work: RunContext) -> pa.Table:
    """Return the staged rows in the batch table's schema."""
    query = f"SELECT * FROM {STAGED} ORDER BY ALL"  # noqa: S608 -- an internal name
    return queries.read_table(work.connection, query).cast(batch_schema(work.pipeline))


def read_uncomputed_rows(work: RunContext, computed: Sequence[Range]) -> RetainedRows:
    """Read the recorded rows of windows that a run does not compute.

    They are all that remains of windows whose records have left the log. Rows that cannot be trusted are not kept.
    """
    schema = batch_schema(work.pipeline)
    if work.recorded_table is None:
        return RetainedRows(rows=schema.empty_table(), ranges=())
    rows = read_rows_outside(work.recorded_table, delta.actions(work.recorded_table), schema, computed)
    ranges = (
        span for span in work.held_ranges if not any(start <= span[0] and span[1] <= end for start, end in computed)
    )
    return RetainedRows(rows=rows, ranges=tuple(ranges))


def _same_definition(work: RunContext) -> str:
    rows = _query_once(work) if scan.can_detect_duplicates(work.pipeline) else _query_scanned_rows(work)
    work.connection.execute(
        f"CREATE TEMP VIEW {scan.COUNTED} AS SELECT * FROM ({rows}) "  # noqa: S608 -- internal names
        f"WHERE epoch_us(window_start) IN (SELECT window_start FROM {WINDOWS})"
    )
    folded = finish_sql(work.pipeline, scan.COUNTED)
    return f"SELECT *, {int(work.target.record.epoch)}::BIGINT AS _epoch FROM ({folded})"  # noqa: S608 -- ours


def _reject_emptied(work: RunContext) -> None:
    """Reject the team's SQL where it returns no row for windows that have rows in the batch table.

    Raises:
        DefinitionError: Names the rows before; nothing was published.
    """
    batch_definition, uri = work.pipeline.batch, batch_uri(work.settings, work.pipeline)
    (rows_after,) = work.connection.execute(f"SELECT count(*) FROM {STAGED}").fetchall()[0]  # noqa: S608 -- an internal name
    if (
        isinstance(batch_definition, SameDefinition)
        or batch_definition.may_be_empty
        or rows_after
        or not delta.exists(uri)
    ):
        return
    delta.relation(work.connection, "published", uri)
    query = f"SELECT count(*) FROM published JOIN {WINDOWS} w ON epoch_us(published.window_start) = w.window_start"  # noqa: S608
    (rows_before,) = work.connection.execute(query).fetchall()[0]
    if rows_before:
        msg = f"SQL `{batch_definition.file}` of `{work.pipeline.name}`: expected rows for the windows computed, "
        msg += f"whose {rows_before:,} rows in the batch table it replaces, got none."
        hint = "nothing was published. `Sql(..., may_be_empty=True)` in the definition lets it replace rows by none."
        raise DefinitionError(msg + f"\nHint: {hint}")


def _query_scanned_rows(work: RunContext) -> str:
    """Return the query of what this run scanned, and of what an earlier one did, read again."""
    reads_sql = segments.plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan))
    sources = [scan.SCAN]
    if reads_sql:
        scan.stage_again(work.records(reads_sql), work.pipeline, work.staged, work.dimensions(reads_sql))
        sources.append(scan.AGAIN)
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {source}" for source in sources)  # noqa: S608 -- internal names


def _query_once(work: RunContext) -> str:
    """Return the query of all records of the planned windows, read together: a twin may lie in any earlier scan."""
    reads = segments.plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan + 1))
    scan.count_once(work.records(reads), work.pipeline, work.staged, work.dimensions(reads))
    return f"SELECT * FROM {scan.ONCE}"  # noqa: S608 -- an internal name


def _team_sql(work: RunContext, plan: RunPlan) -> str:
    reads = segments.plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan + 1))
    events = sql.events(work.records(reads), work.pipeline, work.dimensions(reads))
    sql.stage_team_rows(events, work.pipeline, plan.compute, work.staged)
    return sql.result_sql(work.connection, work.pipeline, WINDOWS, work.target.record.epoch)


def _bind_no_rows(work: RunContext) -> str:
    work.connection.register("no_rows", batch_schema(work.pipeline).empty_table())
    return "no_rows"

"""Results of the planned windows, in the batch table's columns, before they are published.

If the definition has the team's own SQL, it computes them from the parsed records, as the team's batch job does today.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cutover.batch.context import RetainedRows, RunContext
from cutover.batch.plan import RunPlan
from cutover.batch.read import index, scan
from cutover.batch.read.scan import Staging
from cutover.batch.write.replace import read_rows_outside
from cutover.counts import count_noun
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import batch_sql
from cutover.definition.expressions.statements import parse_statements
from cutover.definition.model.pipeline import Pipeline, SameDefinition, Sql
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.lake.batch_runs import Range
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_schema, map_arrow_type_to_duckdb
from cutover.quoting import identifier
from cutover.records import classify
from cutover.records.classes import Class
from cutover.records.classify import future_sql
from cutover.records.enrich import Dimensions
from cutover.records.fold import WINDOW, finish_sql
from cutover.records.reading.scan import plan_reads
from cutover.timestamps import format_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


EVENTS, RETURNED = "events", "returned"
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")

STAGED, WINDOWS = "staged", "wanted_windows"

MOST_LOST = 0.5
"""The team's SQL may leave out less than this share of the rows that the batch table has, without a confirmation."""


def stage_team_rows(events: "DataFrame", pipeline: Pipeline, windows: Sequence[Interval], staged: Staging) -> None:
    """Run the SQL and stage its rows, in their own types, as the view `returned`.

    Its input view `events` holds all records of the run's windows and some of their neighbours'; each
    window must follow from its own records. Rows of other windows are dropped.

    Raises:
        DefinitionError: The file is not one query, or Spark refuses it.
    """
    from pyspark import errors  # noqa: PLC0415 -- only a run needs Spark

    text = _query(pipeline)
    events.createOrReplaceTempView(EVENTS)
    session = events.sparkSession
    try:
        result = session.sql(text)
        _check_names(pipeline, result)
        staged.write(RETURNED, _select_windows(result, pipeline, windows))
    except (errors.AnalysisException, errors.ArithmeticException, errors.SparkRuntimeException) as error:
        reason = str(error).strip().splitlines()[0]
        msg = f"{_place(pipeline)}: expected a query that Spark takes, got: {reason}"
        raise DefinitionError(msg) from error
    finally:
        session.catalog.dropTempView(EVENTS)


def events(records: "DataFrame", pipeline: Pipeline, dimensions: Dimensions) -> "DataFrame":
    """Return the view `events`: the rows that parsed, with `_class`, `_partition`, `_offset`, `_log_time`."""
    from cutover.records.parsing.parser import parse_records  # noqa: PLC0415 -- only a run needs Spark

    rows, twin = parse_records(records, pipeline, dimensions).where("_reason IS NULL"), "false"
    if pipeline.source.record_id is not None:
        rows, twin = classify.mark_duplicates(rows, pipeline), classify.IS_TWIN
    checked_rows = (
        f"CASE WHEN _filtered THEN '{Class.FILTERED}' "
        f"WHEN {future_sql(pipeline, 'unix_micros(_event_time)')} THEN '{Class.FUTURE}' "
        f"WHEN {twin} THEN '{Class.DUPLICATE}' ELSE '{Class.ACCEPTED}' END AS _class"
    )
    columns = (f"`{name}`" for name in compile_pipeline(pipeline).column_types)
    return rows.selectExpr(*columns, checked_rows, "_partition", "_offset", "_log_time")


def result_sql(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, windows: str, epoch: int) -> str:
    """Return the query of the staged rows in the batch table's columns and types.

    Args:
        connection: With the view `returned`.
        pipeline: The definition.
        windows: A relation of the run's windows: `window_start`, `window_end` (microseconds).
        epoch: The cut's.

    Raises:
        DefinitionError: A value does not fit its column exactly, a window is not one of the definition's, or a
            (window, key) stands twice.
    """
    connection.register("batch_columns", batch_schema(pipeline).empty_table())
    actual_types, expected_types = _types(connection, RETURNED), _types(connection, "batch_columns")
    _check_windows(connection, pipeline, windows)
    returned_columns = [
        name for name in expected_types if name in actual_types and name not in {"_n", "_epoch", "window_end"}
    ]
    for name in returned_columns:
        _check_column(connection, pipeline, name, actual_types[name], expected_types[name])
    columns = [
        f"{identifier(n)}::{expected_types[n]} AS {identifier(n)}" for n in returned_columns if n != "window_start"
    ]
    end = "make_timestamptz(planned.window_end) AS window_end"
    tail = f"NULL::BIGINT AS _n, {int(epoch)}::BIGINT AS _epoch"
    rows = f"SELECT returned.window_start, {end}, {', '.join(columns)}, {tail} FROM {RETURNED} AS returned"  # noqa: S608 -- quoted
    return f"{rows} JOIN {windows} AS planned ON epoch_us(returned.window_start) = planned.window_start"


def _query(pipeline: Pipeline) -> str:
    text = batch_sql(pipeline)
    try:
        statements = parse_statements(text)
    except SqlglotError as error:
        msg = f"{_place(pipeline)}: expected one query, it does not parse: {str(error).splitlines()[0]}"
        raise DefinitionError(msg) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        kinds = ", ".join(type(part).__name__.upper() for part in statements) or "nothing"
        msg = f"{_place(pipeline)}: expected one query that changes nothing, got {kinds}."
        raise DefinitionError(msg)
    return text.strip().rstrip(";")


def _check_names(pipeline: Pipeline, result: "DataFrame") -> None:
    expected_columns = ("window_start", *pipeline.key, *pipeline.measures)
    missing = [name for name in expected_columns if result.columns.count(name) != 1]
    if missing:
        msg = f"{_place(pipeline)}: expected the columns {', '.join(expected_columns)}, each once, "
        msg += f"got {', '.join(result.columns)}."
        msg += f"\nHint: check {', '.join(missing)}."
        raise DefinitionError(msg)
    kind = result.schema["window_start"].dataType.simpleString()
    if kind != "timestamp":
        msg = f"{_place(pipeline)}, column `window_start`: expected timestamp, got {kind}.\nHint: cast it in the query."
        raise DefinitionError(msg)


def _select_windows(result: "DataFrame", pipeline: Pipeline, windows: Sequence[Interval]) -> "DataFrame":
    """Select the rows in some windows, and those in no window, which are rejected later instead of dropped."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own name; only a run needs it

    start_times = pa.array([window.start for window in windows], pa.int64())
    starts = F.broadcast(result.sparkSession.createDataFrame(pa.table({"_start": start_times})))
    floor = pipeline.window.starts_sql("unix_micros(window_start)").start
    return result.join(starts, F.expr(f"coalesce({floor}, {windows[0].start}L)") == F.col("_start"), "left_semi")


def _check_windows(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, windows: str) -> None:
    known_starts = f"(SELECT window_start FROM {windows})"  # noqa: S608 -- an internal name
    query = f"SELECT count(*) FROM {RETURNED} WHERE coalesce(epoch_us(window_start) NOT IN {known_starts}, true)"  # noqa: S608
    (strange,) = connection.execute(query).fetchone() or (0,)
    if strange:
        msg = (
            f"{_place(pipeline)}: expected a `window_start` of the definition's windows, got another in {strange} rows."
        )
        raise DefinitionError(msg)
    keys = ", ".join(["window_start", *(identifier(key) for key in pipeline.key)])
    query = f"SELECT count(*) FROM (SELECT 1 FROM {RETURNED} GROUP BY {keys} HAVING count(*) > 1)"  # noqa: S608
    (twice,) = connection.execute(query).fetchone() or (0,)
    if twice:
        msg = f"{_place(pipeline)}: expected one row for each window_start and key, got more for {twice} of them."
        raise DefinitionError(msg)


def _check_column(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, name: str, actual_type: str, expected_type: str
) -> None:
    if actual_type == expected_type:
        return
    numbers = actual_type.startswith(_NUMBERS) and expected_type.startswith(_NUMBERS)
    column = identifier(name)
    exact = f"TRY_CAST(TRY_CAST({column} AS {expected_type}) AS {actual_type})"
    query = f"SELECT count(*) FROM {RETURNED} WHERE {exact} IS DISTINCT FROM {column}"  # noqa: S608 -- quoted
    changed_count = (connection.execute(query).fetchone() or (0,))[0] if numbers else None
    if changed_count != 0:
        actual = actual_type if changed_count is None else f"{actual_type}, and {changed_count} values would change"
        msg = (
            f"{_place(pipeline)}, column `{name}`: expected {expected_type}, got {actual}.\nHint: cast it in the query."
        )
        raise DefinitionError(msg)


def _types(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {relation}").fetchall()}


def _place(pipeline: Pipeline) -> str:
    file = pipeline.batch.file if isinstance(pipeline.batch, Sql) else ""
    return f"Pipeline `{pipeline.name}`, batch SQL `{file}`"


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
        _reject_lost_rows(work)


def stage_rows(work: RunContext, query: str | None) -> None:
    """Make the table `staged` of a query's rows, in the batch table's columns and types; None: of none."""
    query = query or f"SELECT * FROM {_bind_no_rows(work)}"  # noqa: S608 -- an internal name
    columns = ", ".join(
        f"{identifier(field.name)}::{map_arrow_type_to_duckdb(field.type)} AS {identifier(field.name)}"
        for field in batch_schema(work.pipeline)
    )
    work.connection.execute(f"CREATE TEMP TABLE {STAGED} AS SELECT {columns} FROM ({query})")  # noqa: S608 -- quoted


def read_staged_rows(work: RunContext) -> pa.Table:
    """Return the staged rows in the batch table's schema."""
    query = f"SELECT * FROM {STAGED} ORDER BY ALL"  # noqa: S608 -- an internal name
    return queries.query_table(work.connection, query).cast(batch_schema(work.pipeline))


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


def _reject_lost_rows(work: RunContext) -> None:
    """Reject the team's SQL where it leaves out windows, or most rows, that the batch table has.

    Raises:
        DefinitionError: Names the rows before and after; nothing was published.
    """
    team_sql = work.pipeline.batch
    if isinstance(team_sql, SameDefinition) or team_sql.may_remove_rows or work.is_confirmed:
        return
    published = work.recorded_table if work.anew else _open_published(work)
    if published is None:
        return
    delta.bind(work.connection, "published", published)
    place = ", ".join(map(identifier, ("window_start", *work.pipeline.key)))
    query = f"""WITH before AS (
            SELECT {place} FROM published WHERE epoch_us(window_start) IN (SELECT window_start FROM {WINDOWS})
        ), lost_rows AS (FROM before EXCEPT SELECT {place} FROM {STAGED}),
        lost_windows AS (SELECT window_start FROM before EXCEPT SELECT window_start FROM {STAGED})
        SELECT (SELECT count(*) FROM before), (SELECT count(*) FROM {STAGED}), (SELECT count(*) FROM lost_rows),
            (SELECT count(*) FROM lost_windows), (SELECT epoch_us(min(window_start)) FROM lost_windows)
    """  # noqa: S608 -- quoted, and internal names
    before, after, rows, windows, first = work.connection.execute(query).fetchall()[0]
    if not windows and rows < MOST_LOST * max(before, 1):
        return
    losses = [f"it lacks {rows:,} of these rows"]
    if windows:
        losses.append(f"{count_noun(windows, 'window')} would have no row, the first at {format_micros(first)}")
    msg = f"SQL `{team_sql.file}` of `{work.pipeline.name}`: expected rows like those that the batch table has for the "
    msg += f"windows computed ({before:,}), got {count_noun(after, 'row')}: {'; '.join(losses)}."
    hint = (
        f"nothing was published. `cutover batch {work.pipeline.name} --confirm` (for a range with `--from` and `--to`) "
    )
    hint += "publishes it once; for a query that may always do so: `Sql(..., may_remove_rows=True)` in the definition."
    raise DefinitionError(msg + "\nHint: " + hint)


def _open_published(work: RunContext) -> DeltaTable | None:
    uri = work.lake.batch_uri()
    return delta.open_table(uri) if delta.exists(uri) else None


def _query_scanned_rows(work: RunContext) -> str:
    """Return the query of what this run scanned, and of what an earlier one did, read again."""
    reads_sql = plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan))
    sources = [scan.SCAN]
    if reads_sql:
        scan.stage_again(work.records(reads_sql), work.pipeline, work.staged, work.dimensions(reads_sql))
        sources.append(scan.AGAIN)
    return " UNION ALL BY NAME ".join(f"SELECT * FROM {source}" for source in sources)  # noqa: S608 -- internal names


def _query_once(work: RunContext) -> str:
    """Return the query of all records of the planned windows, read together: a twin may lie in any earlier scan."""
    reads = plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan + 1))
    scan.count_once(work.records(reads), work.pipeline, work.staged, work.dimensions(reads))
    return f"SELECT * FROM {scan.ONCE}"  # noqa: S608 -- an internal name


def _team_sql(work: RunContext, plan: RunPlan) -> str:
    reads = plan_reads(index.list_spans(work.connection, WINDOWS, scan=work.scan + 1))
    team_events = events(work.records(reads), work.pipeline, work.dimensions(reads))
    stage_team_rows(team_events, work.pipeline, plan.compute, work.staged)
    return result_sql(work.connection, work.pipeline, WINDOWS, work.target.record.epoch)


def _bind_no_rows(work: RunContext) -> str:
    work.connection.register("no_rows", batch_schema(work.pipeline).empty_table())
    return "no_rows"

"""The team's own SQL over the records that parsed: what a batch job computes today, in the definition's columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cutover.batch.staging import Staging
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.compile.fingerprint import batch_sql
from cutover.definition.expressions.statements import parse_statements
from cutover.definition.model.pipeline import Pipeline, Sql
from cutover.definition.windows.window_fn import Interval
from cutover.errors import DefinitionError
from cutover.lake.tables.schemas import batch_schema
from cutover.quoting import identifier
from cutover.records import duplicates
from cutover.records.classes import Class
from cutover.records.classify import future_sql
from cutover.records.enrich import Dimensions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS, RETURNED = "events", "returned"
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


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
        rows, twin = duplicates.mark_duplicates(rows, pipeline), duplicates.IS_TWIN
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

"""Records with ids: each side counts one of several twins, and not always the same one.

Batch counts the lowest log position, the stream the record that it read first; a late row may be a duplicate for batch,
because the stream had forgotten its id. Therefore batch has its own ledger of duplicates. The temporary tables are

- `batch_twins`: partial rows that batch marks as duplicates, as of the last run that computed their windows;
- `left_out`: late rows of the stream (`__partition`, `__offset`, `window_start`) among them: batch counts their twins;
- `swapped`: partial rows that only one of the sides counts.

A swap is accepted only if it is balanced among twins (same window, event time and id): a record that batch counts and
the stream marks as a duplicate has a twin that the stream counted or marked as late, and a record that only the stream
counted has one that batch counts instead: a duplicate for the stream, or a late row of a minute whose ids it had
forgotten. Any other swap remains an unexplained difference. The effect of a swap on a row is read from the log
(`proof`).
"""

# ruff: noqa: S608 -- names are constants

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema, make_arrow_schema
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.comparison.layout import SharedTable
from cutover.records.classes import Class

SWAPPED, LEFT_OUT = "swapped", "left_out"
TRUTH = "stream_truth"
"""View of the stream's rows without the late ones that batch marks as duplicates."""

_PLACE = (
    '_positions[1].partition AS __partition, _positions[1]."offset" AS __offset, '
    "_positions[1].event_time AS __event, _positions[1].id AS __id"
)
_SAME = "a.__partition = b.__partition AND a.__offset = b.__offset AND a.window_start = b.window_start"
_OF = "OVER (PARTITION BY window_start, __event, __id)"
_SWAPPED = f"""
    CREATE TEMP TABLE {SWAPPED} AS SELECT * EXCLUDE (_side) FROM (
        SELECT a.*, 'put in' AS _side FROM stream_twins a WHERE NOT EXISTS (SELECT 1 FROM batch_twins b WHERE {_SAME})
        UNION ALL BY NAME
        SELECT a.*, CASE WHEN EXISTS (SELECT 1 FROM left_out b WHERE {_SAME}) THEN 'left out' ELSE 'taken out' END
        AS _side FROM batch_twins a WHERE NOT EXISTS (SELECT 1 FROM stream_twins b WHERE {_SAME})
        UNION ALL BY NAME SELECT window_start, __event, __id, 'merged' AS _side FROM late_rows a
        WHERE NOT EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})
    ) QUALIFY _side IN ('put in', 'taken out')
    AND count(*) FILTER (_side = 'put in') {_OF} <= count(*) FILTER (_side IN ('taken out', 'left out')) {_OF}
    AND count(*) FILTER (_side = 'taken out') {_OF} <= count(*) FILTER (_side IN ('put in', 'merged')) {_OF}
"""


def keeps_twins(pipeline: Pipeline) -> bool:
    """Return whether batch has a ledger of twins; a team's SQL has none."""
    return pipeline.source.record_id is not None and isinstance(pipeline.batch, SameDefinition)


def create_duplicate_tables(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, run: BatchRun) -> None:
    """Create the tables, and the view `stream_truth`, from `stream_log`.

    Args:
        connection: Has `stream_log`.
        lake: A pipeline with a record id.
        run: The compared batch run.

    Raises:
        LakeError: Batch's ledger cannot be read.
    """
    _bind_batch(connection, lake, run)
    connection.execute(
        f"CREATE TEMP TABLE stream_twins AS SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
        f" WHERE _class = '{Class.DUPLICATE}'"
    )
    late = f"SELECT window_start, {_PLACE} FROM {SharedTable.STREAM_LOG} WHERE _class = '{Class.LATE}'"
    connection.execute(f"CREATE TEMP TABLE late_rows AS {late}")
    connection.execute(f"CREATE TEMP TABLE left_out AS SELECT a.* FROM late_rows a SEMI JOIN batch_twins b ON {_SAME}")
    make_swapped(connection)
    positioned = f"SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
    is_left_out = f"_class = '{Class.LATE}' AND EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})"
    connection.execute(f"CREATE TEMP VIEW {TRUTH} AS SELECT * FROM ({positioned}) a WHERE NOT ({is_left_out})")


def make_swapped(connection: duckdb.DuckDBPyConnection) -> None:
    """Create `swapped` from `stream_twins`, `batch_twins`, `late_rows` and `left_out`."""
    connection.execute(_SWAPPED)


def _bind_batch(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, run: BatchRun) -> None:
    """Create `batch_twins`; the rows of a window that count are those of the last run that computed it."""
    if run.ledger_version is None:
        connection.register("batch_ledger_all", batch_ledger_schema(lake.pipeline).empty_table())
    else:
        uri = lake.batch_uri("batch_ledger")
        delta.relation(connection, "batch_ledger_all", uri, version=run.ledger_version)
    all_runs = batch_runs.read_effective_runs(lake)
    runs = all_runs[: [batch_run.run_id for batch_run in all_runs].index(run.run_id) + 1]
    spans = [
        {"turn": turn, "run": batch_run.run_id, "first": start, "last": end}
        for turn, batch_run in enumerate(runs)
        for start, end in batch_run.computed
    ]
    kinds = make_arrow_schema({"turn": pa.int64(), "run": pa.string(), "first": pa.int64(), "last": pa.int64()})
    connection.register("batch_spans", pa.Table.from_pylist(spans, schema=kinds))
    connection.execute(
        f"CREATE TEMP TABLE batch_twins AS WITH found AS (SELECT *, {_PLACE} FROM batch_ledger_all"
        f" WHERE _class = '{Class.DUPLICATE}'), newest AS (SELECT window_start, max_by(run, turn) AS run FROM"
        " (SELECT DISTINCT window_start, window_end FROM found) JOIN batch_spans"
        " ON epoch_us(window_start) >= first AND epoch_us(window_end) <= last GROUP BY window_start)"
        " SELECT found.* FROM found JOIN newest USING (window_start) WHERE _run = run"
    )

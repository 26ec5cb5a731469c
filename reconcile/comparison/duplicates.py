"""Records with ids: each side counts one of several twins, and not always the same one.

Batch counts the lowest log position, the stream what it read first; a late row may be a duplicate for batch, since the
stream had forgotten its id. So beside the stream's ledger stands batch's. Makes the temporary tables

- `batch_twins`: rows of the partial shape that batch calls duplicates, as of the last run that computed their windows;
- `left_out`: late rows of the stream (`__partition`, `__offset`, `window_start`) among them: batch counts their twins;
- `swapped`: rows of the partial shape that only one of the sides counts.

A swap is believed as far as it adds up among twins (same window, event time and id): what batch counts and the stream
calls a duplicate has a twin that the stream counted or called late, and what the stream counted alone has one that
batch counts instead: a duplicate for the stream, or a late row of a minute whose ids it had forgotten.
Anything else stays in the difference, and so unexplained. What a swap does to a row is read from the log (`proof`).
"""

# ruff: noqa: S608 -- names of ours

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import batch_uri
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema, make_schema
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.records.classes import Class
from cutover.settings import Settings

SWAPPED, LEFT_OUT = "swapped", "left_out"
TRUTH = "stream_truth"
"""View: the stream's rows without the late ones that batch calls duplicates."""

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
    """Return whether batch keeps a ledger of twins: a team's SQL decides for itself what it counts."""
    return pipeline.source.record_id is not None and isinstance(pipeline.batch, SameDefinition)


def make(connection: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, run: BatchRun) -> None:
    """Make the tables, and the view `stream_truth`, beside `stream_log`.

    Args:
        connection: Holds `stream_log`.
        settings: Where the lake lies.
        pipeline: With a record id.
        run: The batch run that is compared.

    Raises:
        LakeError: Batch's ledger cannot be read.
    """
    _bind_batch(connection, settings, pipeline, run)
    connection.execute(
        f"CREATE TEMP TABLE stream_twins AS SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
        f" WHERE _class = '{Class.DUPLICATE}'"
    )
    late = f"SELECT window_start, {_PLACE} FROM {SharedTable.STREAM_LOG} WHERE _class = '{Class.LATE}'"
    connection.execute(f"CREATE TEMP TABLE late_rows AS {late}")
    connection.execute(f"CREATE TEMP TABLE left_out AS SELECT a.* FROM late_rows a SEMI JOIN batch_twins b ON {_SAME}")
    make_swapped(connection)
    place = f"SELECT *, {_PLACE} FROM {SharedTable.STREAM_LOG}"
    out = f"_class = '{Class.LATE}' AND EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})"
    connection.execute(f"CREATE TEMP VIEW {TRUTH} AS SELECT * FROM ({place}) a WHERE NOT ({out})")


def make_swapped(connection: duckdb.DuckDBPyConnection) -> None:
    """Make `swapped` from `stream_twins`, `batch_twins`, `late_rows` and `left_out`."""
    connection.execute(_SWAPPED)


def _bind_batch(connection: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, run: BatchRun) -> None:
    """Make `batch_twins`: of a window those rows hold that the last run over it wrote."""
    if run.ledger_version is None:
        connection.register("batch_ledger_all", batch_ledger_schema(pipeline).empty_table())
    else:
        uri = batch_uri(settings, pipeline, "batch_ledger")
        delta.relation(connection, "batch_ledger_all", uri, version=run.ledger_version)
    recorded = batch_runs.runs(settings, pipeline)
    upto = recorded[: [each.run_id for each in recorded].index(run.run_id) + 1]
    spans = [
        {"turn": turn, "run": each.run_id, "first": first, "last": end}
        for turn, each in enumerate(upto)
        for first, end in each.computed
    ]
    kinds = make_schema({"turn": pa.int64(), "run": pa.string(), "first": pa.int64(), "last": pa.int64()})
    connection.register("batch_spans", pa.Table.from_pylist(spans, schema=kinds))
    connection.execute(
        f"CREATE TEMP TABLE batch_twins AS WITH found AS (SELECT *, {_PLACE} FROM batch_ledger_all"
        f" WHERE _class = '{Class.DUPLICATE}'), newest AS (SELECT window_start, max_by(run, turn) AS run FROM"
        " (SELECT DISTINCT window_start, window_end FROM found) JOIN batch_spans"
        " ON epoch_us(window_start) >= first AND epoch_us(window_end) <= last GROUP BY window_start)"
        " SELECT found.* FROM found JOIN newest USING (window_start) WHERE _run = run"
    )

"""Changes that a repair would make: its rows compared with the served rows of batch and stream. Without Spark."""

# ruff: noqa: S608 -- every name in a query is quoted or ours

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cutover.batch.read.index import inside_sql
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake import batch_runs
from cutover.lake.batch_runs import Range
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving import views
from cutover.lake.tables import schemas
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier
from cutover.records.watermark import compute_closing_watermark

SIDES = ("served", "batch", "streaming")
_VIEWS = {"served": "serving", "batch": "batch", "streaming": "streaming"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairEffect:
    """Kind of change of each (window, key) of some windows."""

    counts: dict[str, dict[str, int]]  # served, batch, streaming -> same, changed, added, removed
    changes: pa.Table  # served rows that would change: window, key, `_change`, `old_<n>`, `new_<n>` of measure n
    served: pa.Table  # all that is served: window, key, measures, `_served_by`, `_state`, `_change`, `_served_from`
    batch_rows: pa.Table  # the batch table's own rows
    served_from: str | None  # ISO 8601


def compute_effect(lake: PipelineLake, rows: pa.Table, ranges: Sequence[Range]) -> RepairEffect:
    """Compare rows that were computed with what the tables hold of the same windows now.

    Args:
        lake: Pipeline whose tables are compared.
        rows: In the batch table's columns.
        ranges: The windows that lie wholly inside one of these.

    Raises:
        LakeError: A table cannot be read.
    """
    with views.open_views(lake) as connection:
        connection.register("computed_rows", rows)
        counts = {}
        for side in SIDES:
            connection.execute(
                f"CREATE TEMP TABLE {side}_rows AS SELECT * FROM {_VIEWS[side]} WHERE {inside_sql(ranges)}"
            )
            connection.execute(f"CREATE TEMP TABLE {side}_joined AS {_join_sql(lake.pipeline, side)}")
            query = f"SELECT _change, count(*) FROM {side}_joined GROUP BY ALL ORDER BY ALL"
            counts[side] = {str(kind): int(count) for kind, count in connection.execute(query).fetchall()}
        served = _read_served(connection, lake)
        return RepairEffect(
            counts=counts,
            changes=queries.query_table(connection, _changes_sql(lake.pipeline)),
            served=served,
            batch_rows=_read_before(connection, lake.pipeline),
            served_from=min((at for at in served["_served_from"].to_pylist() if at is not None), default=None),
        )


def read_served(lake: PipelineLake, ranges: Sequence[Range]) -> pa.Table:
    """Return what is served now of some windows: window, key, measures, `_served_by`."""
    with views.open_views(lake) as connection:
        columns = ", ".join([*_names(lake.pipeline), "_served_by"])
        return queries.query_table(connection, f"SELECT {columns} FROM serving WHERE {inside_sql(ranges)}")


def have_equal_rows(pipeline: Pipeline, table: pa.Table, second: pa.Table) -> bool:
    """Return whether two tables hold the same rows, in any order; NaN is itself."""
    columns = ", ".join([*_names(pipeline), "_served_by"])
    with queries.open_duckdb() as connection:
        connection.register("first_rows", table)
        connection.register("second_rows", second)
        pairs = (("first_rows", "second_rows"), ("second_rows", "first_rows"))
        sides = (f"(SELECT {columns} FROM {a} EXCEPT ALL SELECT {columns} FROM {b})" for a, b in pairs)
        counts = connection.execute(f"SELECT count(*) FROM ({' UNION ALL '.join(sides)})").fetchall()
        return bool(counts[0][0] == 0)


def _names(pipeline: Pipeline) -> list[str]:
    return [identifier(name) for name in ("window_start", "window_end", *pipeline.key, *pipeline.measures)]


def _join_sql(pipeline: Pipeline, side: str) -> str:
    """Return the query that joins each computed row with that of a side: `old_<n>`, `new_<n>` of measure n."""
    on = " AND ".join(f"o.{key} IS NOT DISTINCT FROM n.{key}" for key in _key(pipeline))
    key = ", ".join(f"CASE WHEN n.__there THEN n.{key} ELSE o.{key} END AS {key}" for key in _key(pipeline))
    measures = [identifier(name) for name in pipeline.measures]
    differ = " OR ".join(f"o.{name} IS DISTINCT FROM n.{name}" for name in measures)
    values = [f"o.{name} AS old_{i}, n.{name} AS new_{i}" for i, name in enumerate(measures)]
    kind = "CASE WHEN o.__there IS NULL THEN 'added' WHEN n.__there IS NULL THEN 'removed'"
    return (
        f"SELECT {key}, {kind} WHEN {differ} THEN 'changed' ELSE 'same' END AS _change, {', '.join(values)}"
        f" FROM (SELECT *, true AS __there FROM {side}_rows) o"
        f" FULL JOIN (SELECT *, true AS __there FROM computed_rows) n ON {on}"
    )


def _key(pipeline: Pipeline) -> list[str]:
    return [identifier(name) for name in ("window_start", "window_end", *pipeline.key)]


def _changes_sql(pipeline: Pipeline) -> str:
    return f"SELECT * FROM served_joined WHERE _change <> 'same' ORDER BY {', '.join(_key(pipeline))}"


def _read_before(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> pa.Table:
    schema = schemas.batch_schema(pipeline)
    columns = ", ".join(identifier(name) for name in schema.names)
    return queries.query_table(connection, f"SELECT {columns} FROM batch_rows ORDER BY ALL").cast(schema)


def _read_served(connection: duckdb.DuckDBPyConnection, lake: PipelineLake) -> pa.Table:
    """Return every row that is or would be served, with its kind of change and when its serving began."""
    served_from = _list_served_from(connection, lake)
    connection.register("since", served_from)
    on = " AND ".join(f"j.{key} IS NOT DISTINCT FROM s.{key}" for key in _key(lake.pipeline))
    key = ", ".join(f"j.{key}" for key in _key(lake.pipeline))
    measures = "".join(f", s.{identifier(name)}" for name in lake.pipeline.measures)
    query = (
        f"SELECT {key}{measures}, s._served_by, s._state, j._change, since._served_from FROM served_joined j"
        f" LEFT JOIN served_rows s ON {on} LEFT JOIN since ON epoch_us(s.window_start) = since._start"
        f" AND epoch_us(s.window_end) = since._end AND s._served_by = since._by ORDER BY {key}"
    )
    return queries.query_table(connection, query)


def _list_served_from(connection: duckdb.DuckDBPyConnection, lake: PipelineLake) -> pa.Table:
    """Return the time from which each window's answer has been served.

    A result of batch is served from its run on, one of the stream from its closing on, a row that an undo restored from
    the undo on.
    """
    query = "SELECT DISTINCT epoch_us(window_start), epoch_us(window_end), _served_by FROM served_rows ORDER BY ALL"
    windows = [(int(a), int(b), str(by)) for a, b, by in connection.execute(query).fetchall()]
    wrote = {run.run_id: run.computed for run in batch_runs.read_recorded_runs(lake)}
    runs = [
        (run.finished, wrote.get(run.undoes or "", run.computed))
        for run in batch_runs.read_effective_runs(lake)
        if run.batch_version is not None
    ]
    version = versions.find_current_version(lake)
    records = [] if version is None else EpochLog(version.uri).records()
    marks = [(r.watermark_after, r.processing_time) for r in records if r.watermark_after is not None]

    def since(start: int, end: int, by: str) -> str | None:
        if by != "streaming":
            finish_times = (at for at, spans in reversed(runs) if any(a <= start and end <= b for a, b in spans))
            return next(finish_times, None)  # of the run over it that was recorded last
        at = bisect_left(
            marks,
            compute_closing_watermark(lake.pipeline.window, lake.pipeline.lateness, end),
            key=lambda mark: mark[0],
        )
        return marks[at][1] or None if at < len(marks) else None

    names = ("_start", "_end", "_by")
    rows = [{**dict(zip(names, window, strict=True)), "_served_from": since(*window)} for window in windows]
    kinds: dict[str, pa.DataType] = {
        "_start": pa.int64(),
        "_end": pa.int64(),
        "_by": pa.string(),
        "_served_from": pa.string(),
    }
    return pa.Table.from_pylist(rows, schema=schemas.make_arrow_schema(kinds))

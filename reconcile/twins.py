"""Records with ids: each side counts one of several twins, and not always the same one.

Batch counts the lowest log position, the stream what it read first; a late row may be a duplicate for batch, since the
stream had forgotten its id. So beside the stream's ledger stands batch's. Makes the temporary tables

- `batch_twins`: rows of the partial shape that batch calls duplicates, as of the last run that computed their windows;
- `left_out`: late rows of the stream (`__partition`, `__offset`, `window_start`) among them: batch counts their twins;
- `swapped`: rows of the partial shape with `sign`: 1 where only batch counts a row, -1 where only the stream does.

A swap is believed as far as it adds up among twins (same window, event time and id): what batch counts and the stream
calls a duplicate has a twin that the stream counted or called late, and what the stream counted alone has one that
batch counts instead: a duplicate for the stream, or a late row of a minute whose ids it had forgotten.
Anything else stays in the difference, and so unexplained.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import duckdb
import pyarrow as pa

from cutover.definition import compiled
from cutover.definition.pipeline import Pipeline, SameDefinition
from cutover.definition.states import State
from cutover.lake import batch_runs, tables
from cutover.lake.batch_runs import BatchRun
from cutover.lake.paths import batch_uri
from cutover.lake.schemas import arrow_type, batch_ledger_schema, duckdb_type
from cutover.lake.tables import identifier
from cutover.records.classes import Class
from cutover.records.fold import WINDOW, finished_columns, fold_sql
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
    CREATE TEMP TABLE {SWAPPED} AS SELECT * EXCLUDE (_side), CASE _side WHEN 'put in' THEN 1 ELSE -1 END AS sign FROM (
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


def tells(pipeline: Pipeline) -> bool:
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
        f"CREATE TEMP TABLE stream_twins AS SELECT *, {_PLACE} FROM stream_log WHERE _class = '{Class.DUPLICATE}'"
    )
    late = f"SELECT window_start, {_PLACE} FROM stream_log WHERE _class = '{Class.LATE}'"
    connection.execute(f"CREATE TEMP TABLE late_rows AS {late}")
    connection.execute(f"CREATE TEMP TABLE left_out AS SELECT a.* FROM late_rows a SEMI JOIN batch_twins b ON {_SAME}")
    swap(connection)
    place = f"SELECT *, {_PLACE} FROM stream_log"
    out = f"_class = '{Class.LATE}' AND EXISTS (SELECT 1 FROM left_out b WHERE {_SAME})"
    connection.execute(f"CREATE TEMP VIEW {TRUTH} AS SELECT * FROM ({place}) a WHERE NOT ({out})")


def swap(connection: duckdb.DuckDBPyConnection) -> None:
    """Make `swapped` from `stream_twins`, `batch_twins`, `late_rows` and `left_out`."""
    connection.execute(_SWAPPED)


def _bind_batch(connection: duckdb.DuckDBPyConnection, settings: Settings, pipeline: Pipeline, run: BatchRun) -> None:
    """Make `batch_twins`: of a window those rows hold that the last run over it wrote."""
    if run.ledger_version is None:
        connection.register("batch_ledger_all", batch_ledger_schema(pipeline).empty_table())
    else:
        uri = batch_uri(settings, pipeline, "batch_ledger")
        tables.relation(connection, "batch_ledger_all", uri, version=run.ledger_version)
    recorded = batch_runs.runs(settings, pipeline)
    upto = recorded[: [each.run_id for each in recorded].index(run.run_id) + 1]
    spans = [
        {"turn": turn, "run": each.run_id, "first": first, "last": end}
        for turn, each in enumerate(upto)
        for first, end in each.computed
    ]
    kinds = [("turn", pa.int64()), ("run", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
    connection.register("batch_spans", pa.Table.from_pylist(spans, schema=pa.schema(kinds)))
    connection.execute(
        f"CREATE TEMP TABLE batch_twins AS WITH found AS (SELECT *, {_PLACE} FROM batch_ledger_all"
        f" WHERE _class = '{Class.DUPLICATE}'), newest AS (SELECT window_start, max_by(run, turn) AS run FROM"
        " (SELECT DISTINCT window_start, window_end FROM found) JOIN batch_spans"
        " ON epoch_us(window_start) >= first AND epoch_us(window_end) <= last GROUP BY window_start)"
        " SELECT found.* FROM found JOIN newest USING (window_start) WHERE _run = run"
    )


def settled_sql(pipeline: Pipeline, moved: str) -> str:
    """Return the query of the rows of some keys once the swapped twins have changed places, as `finished_sql` has them.

    What cannot be told from the states (the new minimum, once the old one is taken out) stays as it was.

    Args:
        pipeline: Key and measures.
        moved: A table of `window_start` and the key.
    """
    keys = [identifier(name) for name in (*WINDOW, *pipeline.key)]
    same = " AND ".join(f"m.{k} IS NOT DISTINCT FROM r.{k}" for k in keys if k != identifier("window_end"))
    there = f"(SELECT * FROM {TRUTH} r WHERE EXISTS (SELECT 1 FROM {moved} m WHERE {same}))"
    base = fold_sql(pipeline, there, keep=(Class.ACCEPTED, Class.LATE))
    states = compiled.states(pipeline)
    lists = ", ".join(
        f"list({identifier(state.column)}) FILTER (sign {sign} 0) AS __{name}{i}"
        for i, state in enumerate(states)
        for sign, name in ((">", "p"), ("<", "m"))
    )
    delta = f"SELECT {', '.join(keys)}, {lists}, sum(sign * _n)::BIGINT AS __n FROM swapped GROUP BY ALL"
    on = " AND ".join(f"b.{k} IS NOT DISTINCT FROM d.{k}" for k in keys)
    either = ", ".join(f"CASE WHEN d.__n IS NULL THEN b.{k} ELSE d.{k} END AS {k}" for k in keys)
    after = ", ".join(f"{_after(state, i)} AS {identifier(state.column)}" for i, state in enumerate(states))
    both = f"SELECT {either}, {after}, (coalesce(b._n, 0) + coalesce(d.__n, 0))::BIGINT AS _n"
    joined = f"{both} FROM ({base}) b FULL JOIN ({delta}) d ON {on}"
    return f"SELECT {', '.join(finished_columns(pipeline).values())} FROM ({joined}) WHERE _n > 0"


def _after(state: State, i: int) -> str:
    """Return a state (column of `b`) with the values `d.__p<i>` put in and `d.__m<i>` taken out."""
    was, put, out = f"b.{identifier(state.column)}", f"d.__p{i}", f"d.__m{i}"
    alike = f"list_sort(coalesce({put}, [])) = list_sort(coalesce({out}, []))"
    changed = {"sum": _sum, "min": _least, "max": _greatest, "earliest": _earliest}.get(state.merge)
    told = was if changed is None else changed(was, put, out, state.most)
    kind = duckdb_type(arrow_type(state.type))
    return f"CAST(CASE WHEN d.__n IS NULL OR {alike} THEN {was} ELSE {told} END AS {kind})"


def _sum(was: str, put: str, out: str, most: int) -> str:
    del most
    nothing = f"{was} IS NULL AND list_sum({put}) IS NULL AND list_sum({out}) IS NULL"
    total = f"coalesce({was}, 0) + coalesce(list_sum({put}), 0) - coalesce(list_sum({out}), 0)"
    return f"CASE WHEN {nothing} THEN NULL ELSE {total} END"


def _least(was: str, put: str, out: str, most: int) -> str:
    del most
    kept = f"list_min({out}) IS NULL OR list_min({out}) > {was}"
    return _extreme(was, put, f"list_min({put})", kept=kept, beats=f"list_min({put}) <= {was}", wins="list_min")


def _greatest(was: str, put: str, out: str, most: int) -> str:
    del most
    kept = f"list_max({out}) IS NULL OR list_max({out}) < {was}"
    return _extreme(was, put, f"list_max({put})", kept=kept, beats=f"list_max({put}) >= {was}", wins="list_max")


def _extreme(was: str, put: str, new: str, *, kept: str, beats: str, wins: str) -> str:
    del put
    both = f"{wins}([{was}, {new}])"
    return f"CASE WHEN {was} IS NULL OR {beats} THEN {new} WHEN {kept} THEN {both} ELSE {was} END"


def _earliest(was: str, put: str, out: str, most: int) -> str:
    """Return the list without what is taken out; as it was where a value that nobody knows would move up into it."""
    new, gone = f"flatten(coalesce({put}, []))", f"flatten(coalesce({out}, []))"
    left = f"list_filter(coalesce({was}, []), lambda x: NOT list_contains({gone}, x))"
    inside = f"len({left}) + len(list_filter({new}, lambda x: x <= {was}[-1]))"
    known = f"len(coalesce({was}, [])) < {most} OR {inside} >= {most}"
    return f"CASE WHEN {known} THEN list_sort(list_concat({left}, {new}))[1:{most}] ELSE {was} END"

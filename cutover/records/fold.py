"""Fold: merge partial aggregates into one row per window and key, in DuckDB's SQL. Order and grouping never matter."""

from collections.abc import Sequence

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures import doubles
from cutover.definition.measures.states import StateColumn
from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier
from cutover.records import join_pairs
from cutover.records.classes import Class

WINDOW = ("window_start", "window_end")
SHORT = 16
"""Entries of a list whose counts are added up in place: 200,000 lists of five in 1 s, as groups of their own in 6 s."""
SESSION = "__session"


def fold_sql(pipeline: Pipeline, relation: str, *, keep: Sequence[str] = (Class.ACCEPTED,)) -> str:
    """Return the query that merges partial aggregates.

    Args:
        pipeline: Key and measures.
        relation: A view or a query in parentheses, of the partial shape (`partials.aggregated`); every row counts, so
            that an epoch that is there twice shows.
        keep: Classes to merge: accepted is what the stream shows, accepted and late together are the truth.

    Returns:
        `window_start`, `window_end`, the key columns, the state columns, `_n bigint` (records); unique by window and
        key (a null key is a value), unordered. Of sessions, rows of a key that touch are one row, from the first start
        to the last end.
    """
    classes = ", ".join(f"'{Class(name)}'" for name in keep)
    rows = f"SELECT * FROM {relation} AS partials WHERE _class IN ({classes})"  # noqa: S608 -- names are checked
    window, group = _quote_names(WINDOW), _quote_names((*WINDOW, *pipeline.key))
    if pipeline.window.merges:
        rows = group_sessions_sql(pipeline.key, f"({rows})")
        window, group = "min(window_start) AS window_start, max(window_end) AS window_end", _quote_names(pipeline.key)
        group += f", {SESSION}"
    states = compile_pipeline(pipeline).states
    merged = [f"{_merge(state)} AS {identifier(state.column)}" for state in states]
    columns = ", ".join((window, _quote_names(pipeline.key), *merged, "CAST(sum(_n) AS bigint) AS _n"))
    gathered = f"SELECT {columns} FROM ({rows}) AS counted GROUP BY {group}"  # noqa: S608 -- names are checked
    counted = [state for state in states if state.merge == "counts"]
    if not counted:
        return gathered
    settled = ", ".join((_quote_names((*WINDOW, *pipeline.key)), *(_settle(state) for state in states), "_n"))
    long = ", ".join(
        f"CASE WHEN len({name}) > {SHORT} THEN {name} END AS {_name_long(state)}"
        for state, name in ((state, identifier(state.column)) for state in counted)
    )
    return f"SELECT {settled} FROM (SELECT *, {long} FROM ({gathered})) AS gathered"  # noqa: S608 -- names are checked


def group_sessions_sql(key: Sequence[str], relation: str) -> str:
    """Return the query that tells which intervals of a key touch, directly or over others: the gap is inclusive.

    Rows that begin together touch. Every frame ends between such rows, never among them: the engine may put them in
    another order in each of two windows, and by `ROWS` they would fall into two sessions.

    Args:
        key: The key columns; a null is a value.
        relation: A view or a query in parentheses, with `window_start`, `window_end` (later) and the key.

    Returns:
        The columns of the relation and `__session`, the start of the first row of its session: rows of one key are of
        one session where it is equal.
    """
    of_key = f"PARTITION BY {_quote_names(key)} ORDER BY window_start"
    reached = f"max(window_end) OVER ({of_key} GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begins = f"CASE WHEN window_start <= {reached} THEN NULL ELSE window_start END"
    opens = f"SELECT *, {begins} AS __opens FROM {relation} AS alone"  # noqa: S608 -- names are checked
    first = f"max(__opens) OVER ({of_key} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return f"SELECT * EXCLUDE (__opens), {first} AS {SESSION} FROM ({opens}) AS opening"  # noqa: S608 -- names are checked


def finish_sql(pipeline: Pipeline, relation: str, *, keep: Sequence[str] = (Class.ACCEPTED,)) -> str:
    """Return the query that folds and finishes each measure.

    Args:
        pipeline: Key and measures.
        relation: As for `fold_sql`.
        keep: As for `fold_sql`.

    Returns:
        `window_start`, `window_end`, the key columns, the measures, the state columns that are no measure's own name
        (such as `<avg>__sum`), `_n bigint`.
    """
    columns = ", ".join(finish_columns(pipeline).values())
    folded = finishable(pipeline, f"({fold_sql(pipeline, relation, keep=keep)})")
    return f"SELECT {columns} FROM {folded} AS folded"  # noqa: S608 -- names are checked


def finishable(pipeline: Pipeline, relation: str) -> str:
    """Return the relation that `finish_columns` is written over, from rows of states: of a join it has the pairs."""
    return relation if pipeline.join is None else join_pairs.with_pairs(compile_pipeline(pipeline), relation)


def finish_columns(pipeline: Pipeline) -> dict[str, str]:
    """Return each output column of `finish_sql` to its SQL over a `finishable` relation, in order."""
    compiled = compile_pipeline(pipeline)
    plain = {name: identifier(name) for name in (*WINDOW, *pipeline.key)}
    named = {name: (text, identifier(name)) for name, text in compiled.finishes.items()}
    measures = {name: to if text == name else f"{text} AS {to}" for name, (text, to) in named.items()}
    rest = {s.column: identifier(s.column) for s in compiled.states if s.column not in compiled.finishes}
    return plain | measures | rest | {"_n": "_n"}


def _merge(state: StateColumn) -> str:
    column = identifier(state.column)
    if state.merge == "sum":
        return (
            f"CAST(sum({column}) AS {state.type})"  # a sum of bigints is a hugeint; minimum and maximum keep their type
        )
    if state.merge == "digits":
        return doubles.merge_sql(column)
    if state.merge in {"min", "max"}:
        return f"{state.merge}({column})"
    listed = f"flatten(list({column}) FILTER ({column} IS NOT NULL))"
    if state.merge == "counts":
        return listed
    different = f"list_distinct({listed})" if state.merge == "smallest" else listed
    return f"list_sort({different})[1:{state.max_entries}]"


def _settle(state: StateColumn) -> str:
    """Return what becomes of a gathered state: of counts one entry a value, in order; null without any."""
    column = identifier(state.column)
    if state.merge != "counts":
        return column
    listed = f"SELECT unnest(gathered.{_name_long(state)}) AS u"
    added = f"SELECT u['value'] AS v, CAST(sum(u['count']) AS BIGINT) AS n FROM ({listed}) GROUP BY 1"  # noqa: S608 -- names are checked
    long = f"(SELECT list({{'value': v, 'count': n}} ORDER BY v) FROM ({added}))"  # noqa: S608 -- names are checked
    # A user's column may be called `x`, and would be taken for the parameter: names with `__` are ours.
    mine = f"list_filter({column}, lambda __x: __x['value'] IS NOT DISTINCT FROM __v)"
    count = f"CAST(list_sum(list_transform({mine}, lambda __x: __x['count'])) AS BIGINT)"
    values = f"list_sort(list_distinct(list_transform({column}, lambda __x: __x['value'])))"
    made = f"list_transform({values}, lambda __v: {{'value': __v, 'count': {count}}})"
    short = f"CASE WHEN len({column}) > 0 THEN {made} END"
    return f"CASE WHEN len({column}) <= {SHORT} THEN {short} ELSE {long} END AS {column}"


def _name_long(state: StateColumn) -> str:
    return identifier(f"__long_{state.column}")


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(identifier(name) for name in names)

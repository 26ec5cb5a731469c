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
SHORT_LIST = 16
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
    merged = [f"{_merge_sql(state)} AS {identifier(state.column)}" for state in states]
    columns = ", ".join((window, _quote_names(pipeline.key), *merged, "CAST(sum(_n) AS bigint) AS _n"))
    merged_query = f"SELECT {columns} FROM ({rows}) AS counted GROUP BY {group}"  # noqa: S608 -- names are checked
    counted_states = [state for state in states if state.merge == "counts"]
    if not counted_states:
        return merged_query
    settled_columns = ", ".join(
        (_quote_names((*WINDOW, *pipeline.key)), *(_merge_counts_sql(state) for state in states), "_n")
    )
    long_lists = ", ".join(
        f"CASE WHEN len({name}) > {SHORT_LIST} THEN {name} END AS {_name_long(state)}"
        for state, name in ((state, identifier(state.column)) for state in counted_states)
    )
    return f"SELECT {settled_columns} FROM (SELECT *, {long_lists} FROM ({merged_query})) AS gathered"  # noqa: S608 -- names are checked


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
    window_order = f"PARTITION BY {_quote_names(key)} ORDER BY window_start"
    previous_end = f"max(window_end) OVER ({window_order} GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    start_if_new = f"CASE WHEN window_start <= {previous_end} THEN NULL ELSE window_start END"
    with_session_starts = f"SELECT *, {start_if_new} AS __opens FROM {relation} AS alone"  # noqa: S608 -- names are checked
    session_start = f"max(__opens) OVER ({window_order} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return f"SELECT * EXCLUDE (__opens), {session_start} AS {SESSION} FROM ({with_session_starts}) AS opening"  # noqa: S608 -- names are checked


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
    folded = make_finishable(pipeline, f"({fold_sql(pipeline, relation, keep=keep)})")
    return f"SELECT {columns} FROM {folded} AS folded"  # noqa: S608 -- names are checked


def make_finishable(pipeline: Pipeline, relation: str) -> str:
    """Return the relation that `finish_columns` is written over, from rows of states: of a join it has the pairs."""
    return relation if pipeline.join is None else join_pairs.add_measures_sql(compile_pipeline(pipeline), relation)


def finish_columns(pipeline: Pipeline) -> dict[str, str]:
    """Return each output column of `finish_sql` to its SQL over a `make_finishable` relation, in order."""
    compiled = compile_pipeline(pipeline)
    group_columns = {name: identifier(name) for name in (*WINDOW, *pipeline.key)}
    finishes = {name: (text, identifier(name)) for name, text in compiled.finishes.items()}
    measures = {name: to if text == name else f"{text} AS {to}" for name, (text, to) in finishes.items()}
    remaining_states = {s.column: identifier(s.column) for s in compiled.states if s.column not in compiled.finishes}
    return group_columns | measures | remaining_states | {"_n": "_n"}


def _merge_sql(state: StateColumn) -> str:
    column = identifier(state.column)
    if state.merge == "sum":
        return (
            f"CAST(sum({column}) AS {state.type})"  # a sum of bigints is a hugeint; minimum and maximum keep their type
        )
    if state.merge == "digits":
        return doubles.merge_sql(column)
    if state.merge in {"min", "max"}:
        return f"{state.merge}({column})"
    entries = f"flatten(list({column}) FILTER ({column} IS NOT NULL))"
    if state.merge == "counts":
        return entries
    distinct_entries = f"list_distinct({entries})" if state.merge == "smallest" else entries
    return f"list_sort({distinct_entries})[1:{state.max_entries}]"


def _merge_counts_sql(state: StateColumn) -> str:
    """Return what becomes of a gathered state: of counts one entry a value, in order; null without any."""
    column = identifier(state.column)
    if state.merge != "counts":
        return column
    long_entries = f"SELECT unnest(gathered.{_name_long(state)}) AS u"
    sums = f"SELECT u['value'] AS v, CAST(sum(u['count']) AS BIGINT) AS n FROM ({long_entries}) GROUP BY 1"  # noqa: S608 -- names are checked
    long_result = f"(SELECT list({{'value': v, 'count': n}} ORDER BY v) FROM ({sums}))"  # noqa: S608 -- names are checked
    # A user's column may be called `x`, and would be taken for the parameter: names with `__` are ours.
    same_value = f"list_filter({column}, lambda __x: __x['value'] IS NOT DISTINCT FROM __v)"
    count = f"CAST(list_sum(list_transform({same_value}, lambda __x: __x['count'])) AS BIGINT)"
    values = f"list_sort(list_distinct(list_transform({column}, lambda __x: __x['value'])))"
    counted_values = f"list_transform({values}, lambda __v: {{'value': __v, 'count': {count}}})"
    short_result = f"CASE WHEN len({column}) > 0 THEN {counted_values} END"
    return f"CASE WHEN len({column}) <= {SHORT_LIST} THEN {short_result} ELSE {long_result} END AS {column}"


def _name_long(state: StateColumn) -> str:
    return identifier(f"__long_{state.column}")


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(identifier(name) for name in names)

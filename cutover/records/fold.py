"""Fold: merge partial aggregates into one row per window and key, in DuckDB SQL, independent of order and grouping."""

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
"""Maximum length of a list whose counts are merged by list functions; longer ones are unnested and grouped.

For 200,000 lists of five entries list functions take 1 s, grouping takes 6 s.
"""
SESSION = "__session"


def fold_sql(pipeline: Pipeline, relation: str, *, keep: Sequence[str] = (Class.ACCEPTED,)) -> str:
    """Return the query that merges partial aggregates.

    Args:
        pipeline: Key and measures.
        relation: A view or a query in parentheses, of the partial shape (`partials.aggregate_partials`). Every row
            counts, so a duplicated epoch changes the result.
        keep: Classes to merge: accepted for the streaming result, accepted and late for the complete result.

    Returns:
        `window_start`, `window_end`, the key columns, the state columns, `_n bigint` (records); unique by window and
        key (null is a key value), unordered. For sessions, touching rows of a key are one row, from the earliest start
        to the latest end.
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
    output_columns = ", ".join(
        (_quote_names((*WINDOW, *pipeline.key)), *(_merge_counts_sql(state) for state in states), "_n")
    )
    long_lists = ", ".join(
        f"CASE WHEN len({name}) > {SHORT_LIST} THEN {name} END AS {_name_long(state)}"
        for state, name in ((state, identifier(state.column)) for state in counted_states)
    )
    return f"SELECT {output_columns} FROM (SELECT *, {long_lists} FROM ({merged_query})) AS merged"  # noqa: S608 -- names are checked


def group_sessions_sql(key: Sequence[str], relation: str) -> str:
    """Return the query that assigns rows to sessions: intervals of a key that touch, transitively (inclusive gap).

    Rows with equal starts touch. The frames use `GROUPS` and `RANGE`, so that such peers are never split: their order
    is undefined and may differ between the two window functions, so with `ROWS` they could be put into two sessions.

    Args:
        key: The key columns; null is a value.
        relation: A view or a query in parentheses, with `window_start`, `window_end` (later) and the key.

    Returns:
        The columns of the relation and `__session`, the start of the session's first row, which together with the key
        identifies the session.
    """
    window_order = f"PARTITION BY {_quote_names(key)} ORDER BY window_start"
    previous_end = f"max(window_end) OVER ({window_order} GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    start_if_new = f"CASE WHEN window_start <= {previous_end} THEN NULL ELSE window_start END"
    with_starts = f"SELECT *, {start_if_new} AS __new_session FROM {relation} AS intervals"  # noqa: S608 -- names are checked
    session_start = f"max(__new_session) OVER ({window_order} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return f"SELECT * EXCLUDE (__new_session), {session_start} AS {SESSION} FROM ({with_starts}) AS session_starts"  # noqa: S608 -- names are checked


def finish_sql(pipeline: Pipeline, relation: str, *, keep: Sequence[str] = (Class.ACCEPTED,)) -> str:
    """Return the query that folds partial aggregates and finishes each measure.

    Args:
        pipeline: Key and measures.
        relation: As for `fold_sql`.
        keep: As for `fold_sql`.

    Returns:
        `window_start`, `window_end`, the key columns, the measures, the state columns whose names are not those of
        measures (such as `<avg>__sum`), `_n bigint`.
    """
    columns = ", ".join(finish_columns(pipeline).values())
    folded = make_finishable(pipeline, f"({fold_sql(pipeline, relation, keep=keep)})")
    return f"SELECT {columns} FROM {folded} AS folded"  # noqa: S608 -- names are checked


def make_finishable(pipeline: Pipeline, relation: str) -> str:
    """Return the relation over which `finish_columns` are evaluated; for a join it adds measures over its pairs."""
    return relation if pipeline.join is None else join_pairs.add_measures_sql(compile_pipeline(pipeline), relation)


def finish_columns(pipeline: Pipeline) -> dict[str, str]:
    """Return the output columns of `finish_sql`, in order: name to SQL over a `make_finishable` relation."""
    compiled = compile_pipeline(pipeline)
    group_columns = {name: identifier(name) for name in (*WINDOW, *pipeline.key)}
    finishes = {name: (text, identifier(name)) for name, text in compiled.finishes.items()}
    measures = {name: to if text == name else f"{text} AS {to}" for name, (text, to) in finishes.items()}
    remaining_states = {s.column: identifier(s.column) for s in compiled.states if s.column not in compiled.finishes}
    return group_columns | measures | remaining_states | {"_n": "_n"}


def _merge_sql(state: StateColumn) -> str:
    column = identifier(state.column)
    if state.merge == "sum":  # DuckDB sums bigints to a hugeint; minimum and maximum keep their type
        return f"CAST(sum({column}) AS {state.type})"
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
    """Return a state's output column; lists of counts are merged to one entry per value, in order, null if empty."""
    column = identifier(state.column)
    if state.merge != "counts":
        return column
    long_entries = f"SELECT unnest(merged.{_name_long(state)}) AS u"
    sums = f"SELECT u['value'] AS v, CAST(sum(u['count']) AS BIGINT) AS n FROM ({long_entries}) GROUP BY 1"  # noqa: S608 -- names are checked
    long_result = f"(SELECT list({{'value': v, 'count': n}} ORDER BY v) FROM ({sums}))"  # noqa: S608 -- names are checked
    # A lambda parameter `x` would shadow a user's column `x`; names with `__` are reserved.
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

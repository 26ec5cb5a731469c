"""Fold: merge partial aggregates into one row per window and key, in DuckDB SQL, independent of order and grouping.

For a join, every left row of a window and key is paired with every right row, without lists of pairs. A measure that
uses columns of one side only needs the number of rows of the other side. A measure that uses both sides is computed
over pairs of distinct values, weighted by the product of both counts; these pairs stream through a hash join into an
aggregate. (Measured on 2 cores: 10,000 by 10,000 distinct values take 2 s; a correlated subquery over the two lists
exceeded 2 GB.)

An interval join computes every measure over the pairs whose times are in range, each in the window of its earlier row.
"""

# ruff: noqa: S608 -- names are checked when a definition is loaded, expressions are compiled from the whitelist
from collections.abc import Sequence

from cutover.definition.compile.compiled import SIDES, CompiledPipeline, JoinSide, Name, compile_pipeline
from cutover.definition.expressions.compiler import NEVER, Expression
from cutover.definition.expressions.terms import map_spark_type_to_duckdb
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Min
from cutover.definition.measures.states import StateColumn, compute_sum_type, is_float_type
from cutover.definition.model.pipeline import Pipeline
from cutover.quoting import identifier, literal
from cutover.records.classes import Class

DIGITS = 19
"""Maximum digits of a summed number (`join_checks`) and of its weight, so that their product fits a decimal(38)."""

_NULL_ROW = "[{'value': NULL, 'count': 1::BIGINT}]"
_BOTH: frozenset[Name] = frozenset(SIDES)

WINDOW = ("window_start", "window_end")
SHORT_LIST = 16
"""Maximum length of a list whose counts are merged by list functions; longer ones are unnested and grouped.

For 200,000 lists of five entries list functions take 1 s, grouping takes 6 s.
"""
SESSION = "__session"


def add_measures_sql(compiled: CompiledPipeline, relation: str) -> str:
    """Return a query in parentheses that adds a column for each measure to the rows of a relation.

    Args:
        compiled: The compiled pipeline with its join, key and measures.
        relation: A view or a query in parentheses, one row per window and key: the key, and the bags `__left` and
            `__right`; of an interval join also `window_start`.
    """
    left_side, right_side = compiled.sides
    has_interval = compiled.interval is not None
    sides_by_measure = {
        name: _BOTH if has_interval else compiled.used_sides[name] for name in compiled.definition.measures
    }
    left_measures = [name for name, used in sides_by_measure.items() if "right" not in used]
    right_measures = [name for name, used in sides_by_measure.items() if used == {"right"}]
    pair_measures = [name for name, used in sides_by_measure.items() if used == _BOTH]
    measures_and_rows = {
        "of_left": (left_measures, _side_rows_sql(compiled, left_side, "__l", "__rights")),
        "of_right": (right_measures, _side_rows_sql(compiled, right_side, "__r", "__lefts")),
        "of_both": (pair_measures, _pair_rows_sql(compiled, left_side, right_side)),
    }
    required = {name: parts for name, parts in measures_and_rows.items() if parts[0]}
    steps = [f"{name} AS ({_query_aggregates(compiled, names, rows)})" for name, (names, rows) in required.items()]
    joins = " ".join(f"LEFT JOIN {name} USING (__group)" for name in required)
    return (
        f"(WITH {', '.join([*_block_steps(compiled, relation), *steps])} "
        f"SELECT grouped.*, {', '.join(_select_measure(compiled, name) for name in compiled.definition.measures)}"
        f" FROM grouped {joins})"
    )


def select_pairs_sql(pipeline: Pipeline, relation: str, *, by: Sequence[str]) -> str:
    """Return the query of the pairs of an interval join: one row per window, key and values of further columns.

    Args:
        pipeline: With an interval join.
        relation: A view or a query in parentheses of the shape of `finish_sql`.
        by: Columns of a pair: of the key, its event times and its `ids`.

    Returns:
        `window_start`, `window_end`, the key columns, the other ones of `by` (times without a zone, in UTC), and the
        measures over the pairs with these values.
    """
    compiled = compile_pipeline(pipeline)
    left_side, right_side = compiled.sides
    groups = tuple(identifier(name) for name in by if name not in pipeline.key)
    names = tuple(pipeline.measures)
    pairs = _query_aggregates(compiled, names, _pair_rows_sql(compiled, left_side, right_side), groups=groups)
    columns = [f"g.{identifier(name)}" for name in (*WINDOW, *pipeline.key)]
    columns += [f"p.{column}" for column in (*groups, *map(identifier, names))]
    steps = ", ".join([*_block_steps(compiled, relation), f"pairs AS ({pairs})"])
    return f"WITH {steps} SELECT {', '.join(columns)} FROM grouped g JOIN pairs p USING (__group)"


def _block_steps(compiled: CompiledPipeline, relation: str) -> list[str]:
    """Return the first CTEs: `grouped` (the relation with `__group`) and `blocks` (bags whose rows are all paired).

    A group with rows on both sides is one block of both bags. Otherwise an outer join has one block for each preserved
    side, paired with a single row of nulls.
    """
    keys = ", ".join(
        f"{_drop_zone(identifier(name), kind)} AS {identifier(name)}" for name, kind in compiled.key_types.items()
    )
    has_key = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in compiled.definition.key)
    matched = f"({has_key} AND coalesce(len(__left), 0) > 0 AND coalesce(len(__right), 0) > 0)"
    join_type = compiled.definition.join.how if compiled.definition.join is not None else "inner"
    block_queries = [f"SELECT __group, {keys}, __left AS __l, __right AS __r FROM grouped WHERE {matched}"]
    if join_type in {"left", "full"}:
        block_queries.append(
            f"SELECT __group, {keys}, __left, {_NULL_ROW} FROM grouped WHERE NOT {matched} AND len(__left) > 0"
        )
    if join_type == "full":
        block_queries.append(
            f"SELECT __group, {keys}, {_NULL_ROW}, __right FROM grouped WHERE NOT {matched} AND len(__right) > 0"
        )
    counts = ", ".join(
        f"CAST(list_sum(list_transform({c}, lambda __x: __x['count'])) AS BIGINT) AS {n}"
        for c, n in (("__l", "__lefts"), ("__r", "__rights"))
    )
    all_blocks = " UNION ALL ".join(block_queries)
    if compiled.interval is not None:
        all_blocks = f"SELECT b.*, window_start FROM ({all_blocks}) b JOIN grouped USING (__group)"
    return [
        f"grouped AS MATERIALIZED (SELECT row_number() OVER () AS __group, * FROM {relation})",
        f"blocks AS MATERIALIZED (SELECT row_number() OVER () AS __block, *, {counts} FROM ({all_blocks}))",
    ]


def _side_rows_sql(compiled: CompiledPipeline, side: JoinSide, bag: str, other_count: str) -> str:
    """Return the rows of one side, weighted by their count times the number of rows on the other side."""
    rows = f"SELECT __group, {_keys(compiled)}, {other_count}, unnest({bag}) AS __u FROM blocks"
    columns = ", ".join([_keys(compiled), *_fields(side, "__u"), f"__u['count'] * {other_count} AS __weight"])
    return f"SELECT __group, {columns} FROM ({rows})"


def _pair_rows_sql(compiled: CompiledPipeline, side: JoinSide, right: JoinSide) -> str:
    """Return the pairs of distinct values, weighted by the product of their counts."""
    interval = compiled.interval
    start = "" if interval is None else "window_start, "
    lefts = f"SELECT __group, {start}{_keys(compiled)}, __block, unnest(__l) AS __u FROM blocks"
    rights = "SELECT __block, unnest(__r) AS __v FROM blocks"
    columns = ", ".join([_keys(compiled), *_fields(side, "__u"), *_fields(right, "__v")])
    weight = "__u['count'] * __v['count'] AS __weight"
    pairs = f"SELECT __group, {columns}, {weight} FROM ({lefts}) JOIN ({rights}) USING (__block)"
    if interval is None:
        return pairs
    left_time, right_time = (
        f"epoch_us({row}['value'][{literal(name)}])" for row, name in (("__u", interval.left), ("__v", interval.right))
    )
    is_in_range = f"{right_time} - {left_time} BETWEEN {interval.lower} AND {interval.upper}"
    is_first = f"least({left_time}, {right_time}) < epoch_us(window_start) + {interval.every}"
    return f"{pairs} WHERE {is_in_range} AND {is_first}"


def _fields(side: JoinSide, row: str) -> list[str]:
    columns = {name: (f"{row}['value']['{name}']", kind) for name, kind in side.types.items()}
    return [f"{_drop_zone(column, kind)} AS {identifier(name)}" for name, (column, kind) in columns.items()]


def _keys(compiled: CompiledPipeline) -> str:
    return ", ".join(identifier(name) for name in compiled.definition.key)


def _drop_zone(column: str, kind: str) -> str:
    """Return a column of the tables as expressions expect it: timestamps without a time zone, in UTC."""
    return f"make_timestamp(epoch_us({column}))" if kind == "timestamp" else column


def _query_aggregates(
    compiled: CompiledPipeline, names: Sequence[str], rows: str, *, groups: Sequence[str] = ()
) -> str:
    expressions = compiled.measured
    values = [f"{_value_sql(expressions[name])} AS __value_{i}" for i, name in enumerate(names)]
    results = [
        f"{_aggregate_sql(compiled, name, f'__value_{i}')} AS {identifier(name)}" for i, name in enumerate(names)
    ]
    group = ", ".join(("__group", *groups))
    inner = f"SELECT {group}, __weight, {', '.join(values)} FROM ({rows})"
    return f"SELECT {group}, {', '.join(results)} FROM ({inner}) GROUP BY {group}"


def _value_sql(expression: Expression | None) -> str:
    """Return the value of an expression for a pair; null if it fails."""
    if expression is None:
        return "true"
    value = f"CAST({expression.duckdb} AS {map_spark_type_to_duckdb(expression.type)})"
    return (
        value if expression.duckdb_failed == NEVER else f"CASE WHEN NOT ({expression.duckdb_failed}) THEN {value} END"
    )


def _aggregate_sql(compiled: CompiledPipeline, name: str, value: str) -> str:
    measure, expression = compiled.definition.measures[name], compiled.measured[name]
    if isinstance(measure, Count) or expression is None:
        return "CAST(sum(__weight) AS BIGINT)"
    if isinstance(measure, Min):
        extreme = f"{'max' if isinstance(measure, Max) else 'min'}({value})"
        return f"make_timestamptz(epoch_us({extreme}))" if expression.type == "timestamp" else extreme
    total = _sum_sql(value, expression.type)
    if not isinstance(measure, Avg):
        return total
    count = f"CAST(sum(__weight) FILTER ({value} IS NOT NULL) AS BIGINT)"
    return f"CAST({total} AS DOUBLE) / nullif({count}, 0)"


def _sum_sql(value: str, kind: str) -> str:
    if is_float_type(kind):
        return doubles.total_sql(f"({doubles.weighted_sum_sql(value, '__weight')})")
    number = f"CAST({value} AS DECIMAL({DIGITS},0))" if kind in {"int", "bigint"} else value
    return f"CAST(sum({number} * CAST(__weight AS DECIMAL({DIGITS},0))) AS {compute_sum_type(kind).upper()})"


def _select_measure(compiled: CompiledPipeline, name: str) -> str:
    """Return a measure's output column; for a group without pairs a count is 0 and every other measure null."""
    column = identifier(name)
    return f"coalesce({column}, 0) AS {column}" if isinstance(compiled.definition.measures[name], Count) else column


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
    rows = f"SELECT * FROM {relation} AS partials WHERE _class IN ({classes})"
    window, group = _quote_names(WINDOW), _quote_names((*WINDOW, *pipeline.key))
    if pipeline.window.merges:
        rows = group_sessions_sql(pipeline.key, f"({rows})")
        window, group = "min(window_start) AS window_start, max(window_end) AS window_end", _quote_names(pipeline.key)
        group += f", {SESSION}"
    states = compile_pipeline(pipeline).states
    merged = [f"{_merge_sql(state)} AS {identifier(state.column)}" for state in states]
    columns = ", ".join((window, _quote_names(pipeline.key), *merged, "CAST(sum(_n) AS bigint) AS _n"))
    merged_query = f"SELECT {columns} FROM ({rows}) AS counted GROUP BY {group}"
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
    return f"SELECT {output_columns} FROM (SELECT *, {long_lists} FROM ({merged_query})) AS merged"


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
    with_starts = f"SELECT *, {start_if_new} AS __new_session FROM {relation} AS intervals"
    session_start = f"max(__new_session) OVER ({window_order} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return f"SELECT * EXCLUDE (__new_session), {session_start} AS {SESSION} FROM ({with_starts}) AS session_starts"


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
    return f"SELECT {columns} FROM {folded} AS folded"


def make_finishable(pipeline: Pipeline, relation: str) -> str:
    """Return the relation over which `finish_columns` are evaluated; for a join it adds measures over its pairs."""
    return relation if pipeline.join is None else add_measures_sql(compile_pipeline(pipeline), relation)


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
        return doubles.merge_digits_sql(column)
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
    sums = f"SELECT u['value'] AS v, CAST(sum(u['count']) AS BIGINT) AS n FROM ({long_entries}) GROUP BY 1"
    long_result = f"(SELECT list({{'value': v, 'count': n}} ORDER BY v) FROM ({sums}))"
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

"""Measures of a join, computed from the left and right bags of a window and key in DuckDB SQL, without lists of pairs.

Within a window and key every left row is paired with every right row. A measure that uses columns of one side only
needs the number of rows of the other side. A measure that uses both sides is computed over pairs of distinct values,
weighted by the product of both counts; these pairs stream through a hash join into an aggregate. (Measured on 2 cores:
10,000 by 10,000 distinct values take 2 s; a correlated subquery over the two lists exceeded 2 GB.)
"""

# ruff: noqa: S608 -- names are checked when a definition is loaded, expressions are compiled from the whitelist

from collections.abc import Sequence

from cutover.definition.compile.bags import SIDES, Name, Side
from cutover.definition.compile.compiled import CompiledPipeline
from cutover.definition.expressions.compiler import NEVER, Expression
from cutover.definition.expressions.terms import duckdb_type
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Min
from cutover.definition.measures.states import compute_sum_type, is_float
from cutover.quoting import identifier

DIGITS = 19
"""Maximum digits of a summed number (`join_checks`) and of its weight, so that their product fits a decimal(38)."""

_NULL_ROW = "[{'value': NULL, 'count': 1::BIGINT}]"
_BOTH: frozenset[Name] = frozenset(SIDES)


def add_measures_sql(compiled: CompiledPipeline, relation: str) -> str:
    """Return a query in parentheses that adds a column for each measure to the rows of a relation.

    Args:
        compiled: The compiled pipeline with its join, key and measures.
        relation: A view or a query in parentheses, one row per window and key: the key, and the bags `__left` and
            `__right`.
    """
    left_side, right_side = compiled.sides
    sides_by_measure = {name: compiled.used_sides[name] for name in compiled.definition.measures}
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
    return [
        f"grouped AS MATERIALIZED (SELECT row_number() OVER () AS __group, * FROM {relation})",
        f"blocks AS MATERIALIZED (SELECT row_number() OVER () AS __block, *, {counts} FROM ({all_blocks}))",
    ]


def _side_rows_sql(compiled: CompiledPipeline, side: Side, bag: str, other_count: str) -> str:
    """Return the rows of one side, weighted by their count times the number of rows on the other side."""
    rows = f"SELECT __group, {_keys(compiled)}, {other_count}, unnest({bag}) AS __u FROM blocks"
    columns = ", ".join([_keys(compiled), *_fields(side, "__u"), f"__u['count'] * {other_count} AS __weight"])
    return f"SELECT __group, {columns} FROM ({rows})"


def _pair_rows_sql(compiled: CompiledPipeline, side: Side, right: Side) -> str:
    """Return the pairs of distinct values, weighted by the product of their counts."""
    lefts = f"SELECT __group, {_keys(compiled)}, __block, unnest(__l) AS __u FROM blocks"
    rights = "SELECT __block, unnest(__r) AS __v FROM blocks"
    columns = ", ".join([_keys(compiled), *_fields(side, "__u"), *_fields(right, "__v")])
    weight = "__u['count'] * __v['count'] AS __weight"
    return f"SELECT __group, {columns}, {weight} FROM ({lefts}) JOIN ({rights}) USING (__block)"


def _fields(side: Side, row: str) -> list[str]:
    columns = {name: (f"{row}['value']['{name}']", kind) for name, kind in side.types.items()}
    return [f"{_drop_zone(column, kind)} AS {identifier(name)}" for name, (column, kind) in columns.items()]


def _keys(compiled: CompiledPipeline) -> str:
    return ", ".join(identifier(name) for name in compiled.definition.key)


def _drop_zone(column: str, kind: str) -> str:
    """Return a column of the tables as expressions expect it: timestamps without a time zone, in UTC."""
    return f"make_timestamp(epoch_us({column}))" if kind == "timestamp" else column


def _query_aggregates(compiled: CompiledPipeline, names: Sequence[str], rows: str) -> str:
    expressions = compiled.measured
    values = [f"{_value_sql(expressions[name])} AS __value_{i}" for i, name in enumerate(names)]
    results = [
        f"{_aggregate_sql(compiled, name, f'__value_{i}')} AS {identifier(name)}" for i, name in enumerate(names)
    ]
    inner = f"SELECT __group, __weight, {', '.join(values)} FROM ({rows})"
    return f"SELECT __group, {', '.join(results)} FROM ({inner}) GROUP BY __group"


def _value_sql(expression: Expression | None) -> str:
    """Return the value of an expression for a pair; null if it fails."""
    if expression is None:
        return "true"
    value = f"CAST({expression.duckdb} AS {duckdb_type(expression.type)})"
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
    if is_float(kind):
        return doubles.total_sql(f"({doubles.weighted_sum_sql(value, '__weight')})")
    number = f"CAST({value} AS DECIMAL({DIGITS},0))" if kind in {"int", "bigint"} else value
    return f"CAST(sum({number} * CAST(__weight AS DECIMAL({DIGITS},0))) AS {compute_sum_type(kind).upper()})"


def _select_measure(compiled: CompiledPipeline, name: str) -> str:
    """Return a measure's output column; for a group without pairs a count is 0 and every other measure null."""
    column = identifier(name)
    return f"coalesce({column}, 0) AS {column}" if isinstance(compiled.definition.measures[name], Count) else column

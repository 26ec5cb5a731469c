"""Evaluation of the definition's expressions over many records at once, by DuckDB, and of joins in plain Python.

A join has all pairs of the rows of both sides, and each measure is computed over these pairs.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal
from functools import cache
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import JoinSide, compile_pipeline
from cutover.definition.expressions.terms import map_spark_type_to_duckdb
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min
from cutover.definition.model.joins import RIGHT_PARTITION_BASE, SelfJoin
from cutover.definition.model.pipeline import Pipeline, make_left_side, make_right_side
from cutover.definition.model.topic import Topic, parse_decimal_type
from cutover.quoting import identifier
from cutover.records.reference.measures import EXACT, EventPosition, finish_measure
from cutover.timestamps import to_micros

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
}

_LOCK = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionValues:
    """Results of the expressions for one record."""

    failed: bool
    passes: bool
    key: tuple[Any, ...]
    values: Mapping[str, Any]  # measure -> value; None for a count


def evaluate_expressions(pipeline: Pipeline, rows: Sequence[Mapping[str, Any]]) -> list[ExpressionValues]:
    """Evaluate `where`, derived columns, key and measures.

    Args:
        pipeline: Its expressions.
        rows: Schema and lookup columns of each record; timestamps in microseconds since 1970.

    Returns:
        One result per row, in order. Timestamps in keys and values are datetimes without a time zone, in UTC.
    """
    if not rows:
        return []
    with _connect() as connection:
        connection.register("records", _make_table(pipeline, rows))
        result_rows = connection.execute(_query(pipeline)).fetchall()
    return [_make_values(pipeline, row) for row in result_rows]


def _connect() -> duckdb.DuckDBPyConnection:
    """Open a connection to an engine that the process shares: creating one (10 ms) takes longer than most queries."""
    with _LOCK:
        return _share_engine().cursor()


@cache
def _share_engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _before_fork() -> None:
    """Close the shared engine: a forked child has none of its threads, and would crash at exit."""
    _LOCK.acquire()
    _share_engine.cache_clear()


os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def _make_table(pipeline: Pipeline, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {
        name: pa.array([row[name] for row in rows], map_schema_type_to_arrow(kind))
        for name, kind in compile_pipeline(pipeline).row_types.items()
    }
    return pa.table({"__row": pa.array(range(len(rows)), pa.int64()), **columns})


def map_schema_type_to_arrow(kind: str) -> pa.DataType:
    """Convert a type of the schema (`bigint`, `decimal(12,2)`, ...) to Arrow's."""
    parts = parse_decimal_type(kind)
    return pa.decimal128(*parts) if parts else ARROW_TYPES[kind]


def _query(pipeline: Pipeline) -> str:
    compiled = compile_pipeline(pipeline)
    condition = compiled.where
    values = [
        "NULL" if item is None else f"CAST({item.duckdb} AS {map_spark_type_to_duckdb(item.type)})"
        for item in compiled.measured.values()
    ]
    derived = [
        f'CAST({item.duckdb} AS {map_spark_type_to_duckdb(item.type)}) AS "{name}"'
        for name, item in compiled.derived.items()
    ]
    keys = [identifier(name) for name in pipeline.key]
    passes = "true" if condition is None else f"({condition.duckdb}) IS TRUE"
    columns = ", ".join([compiled.row_failed_duckdb, passes, *keys, *values])
    inner = ", ".join(["*", *derived])
    return f"SELECT {columns} FROM (SELECT {inner} FROM records) ORDER BY __row"  # noqa: S608 -- compiled from the whitelist


def _make_values(pipeline: Pipeline, row: tuple[Any, ...]) -> ExpressionValues:
    failed, passes, *key_and_values = row
    keys, values = key_and_values[: len(pipeline.key)], key_and_values[len(pipeline.key) :]
    return ExpressionValues(
        failed=failed, passes=passes, key=tuple(keys), values=dict(zip(pipeline.measures, values, strict=True))
    )


CountedRow = tuple[Mapping[str, Any], EventPosition]
Key = tuple[Any, ...]
CONDITIONS = ("join.left", "join.right")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    columns: Mapping[str, Any]  # of the key and both sides; null for a missing side
    count: int  # number of pairs with these columns


def make_side_pipelines(pipeline: Pipeline) -> tuple[Pipeline, Pipeline]:
    """Return the pipelines that are evaluated for records of the left and the right topic; equal without a join.

    For a join their `measures` are the columns that the pairs need; for a self join also both conditions.
    """
    if pipeline.join is None:
        return pipeline, pipeline
    left_side, right_side = compile_pipeline(pipeline).sides
    if isinstance(pipeline.join, SelfJoin):
        conditions = zip(CONDITIONS, (pipeline.join.left, pipeline.join.right), strict=True)
        both = replace(
            make_left_side(pipeline),
            measures=_make_max_measures({**left_side.sources, **right_side.sources, **dict(conditions)}),
        )
        return both, both
    prefix = pipeline.join.prefix
    right_sources = {name: f"`{name.removeprefix(prefix)}`" for name in right_side.sources}
    return (
        replace(make_left_side(pipeline), measures=_make_max_measures(left_side.sources)),
        replace(make_right_side(pipeline), measures=_make_max_measures(right_sources)),
    )


def _make_max_measures(texts: Mapping[str, str]) -> dict[str, Measure]:
    return {name: Max(text) for name, text in texts.items()}


def apply_join_conditions(pipeline: Pipeline, values: ExpressionValues) -> ExpressionValues:
    """Return the values of a record; a record that is on no side of a self join does not pass."""
    if not isinstance(pipeline.join, SelfJoin):
        return values
    return replace(values, passes=values.passes and any(values.values[name] for name in CONDITIONS))


def compute_join_measures(
    pipeline: Pipeline, groups: Mapping[Any, tuple[int, Key, Sequence[CountedRow]]]
) -> dict[Any, dict[str, Any]]:
    """Compute the finished measures of each group from the start of its window, its key and its rows."""
    group_pairs = [
        (group, pair)
        for group, (start, key, rows) in groups.items()
        for pair in _make_pairs(pipeline, start, key, rows)
    ]
    measures_by_group: dict[Any, dict[str, Any]] = {group: {} for group in groups}
    for name, measure in pipeline.measures.items():
        values: dict[Any, list[tuple[Any, int]]] = {group: [] for group in groups}
        pair_values = _evaluate_pairs(pipeline, name, [pair for _, pair in group_pairs])
        for (group, pair), value in zip(group_pairs, pair_values, strict=True):
            values[group].append((value, pair.count))
        for group, weighted in values.items():
            measures_by_group[group][name] = finish_measure(measure, _merge_weighted(measure, weighted))
    return measures_by_group


def _make_pairs(pipeline: Pipeline, start: int, key: Key, rows: Sequence[CountedRow]) -> Iterator[_Pair]:
    interval = compile_pipeline(pipeline).interval
    bags = [_make_bag(pipeline, side, rows) for side in compile_pipeline(pipeline).sides]
    key_columns = dict(zip(pipeline.key, key, strict=True))
    for left_rows, right_rows in _pair_bags(pipeline, None in key, *bags):
        for left_row, left_count in left_rows.items():
            for right_row, right_count in right_rows.items():
                columns = {**key_columns, **dict(left_row), **dict(right_row)}
                if interval is not None:
                    names = (interval.left, interval.right)
                    left_time, right_time = (to_micros(columns[name].replace(tzinfo=UTC)) for name in names)
                if interval is None or interval.has_pair(left_time, right_time, start):
                    yield _Pair(columns=columns, count=left_count * right_count)


def _pair_bags(
    pipeline: Pipeline, is_null: bool, left_rows: Counter[Any], right_rows: Counter[Any]
) -> list[tuple[Any, Any]]:
    """Return the bags whose rows are all paired with each other; a missing side is a bag of one empty row."""
    join_type = pipeline.join.how if pipeline.join is not None else "inner"
    null_row = Counter([()])
    if left_rows and right_rows and not is_null:
        return [(left_rows, right_rows)]
    unmatched = [(left_rows, null_row)] if join_type in {"left", "full"} else []
    return [*unmatched, *([(null_row, right_rows)] if join_type == "full" else [])]


def _make_bag(pipeline: Pipeline, side: JoinSide, rows: Sequence[CountedRow]) -> Counter[Any]:
    side_rows = [values for values, position in rows if _is_on_side(pipeline, side, values, position)]
    return Counter(tuple((name, values[name]) for name in side.types) for values in side_rows)


def _is_on_side(pipeline: Pipeline, side: JoinSide, values: Mapping[str, Any], position: EventPosition) -> bool:
    if isinstance(pipeline.join, SelfJoin):
        return values[f"join.{side.name}"] is True
    return (position[1] >= RIGHT_PARTITION_BASE) == (side.name == "right")


def _evaluate_pairs(pipeline: Pipeline, name: str, pairs: Sequence[_Pair]) -> list[Any]:
    """Evaluate the expression of a measure for each pair; None if it fails."""
    measure = pipeline.measures[name]
    if isinstance(measure, Count):
        return [1] * len(pairs)
    types = compile_pipeline(pipeline).pair_types
    schema = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
    pair_topic = Topic(name="pairs", schema=schema, event_time="")
    pair_pipeline = replace(
        make_left_side(pipeline), source=pair_topic, where=None, derive={}, key=(), measures={name: measure}
    )
    evaluated_pairs = evaluate_expressions(pair_pipeline, [dict.fromkeys(types) | dict(pair.columns) for pair in pairs])
    return [None if item.failed else item.values[name] for item in evaluated_pairs]


def _merge_weighted(measure: Measure, weighted: Sequence[tuple[Any, int]]) -> Any:
    """Return the state of a measure from (value, count) items, before it is finished; nulls are ignored."""
    present = [(value, weight) for value, weight in weighted if value is not None]
    count = sum(weight for _, weight in present)
    if isinstance(measure, Count):
        return count
    if isinstance(measure, Avg):
        return (_sum_weighted(present), count)
    if isinstance(measure, Min):
        values = [value for value, _ in present]
        return None if not values else max(values) if isinstance(measure, Max) else min(values)
    return _sum_weighted(present) if present else None


def _sum_weighted(weighted: Sequence[tuple[Any, int]]) -> Any:
    if weighted and isinstance(weighted[0][0], float):
        return doubles.from_units(sum(doubles.to_units(value) * weight for value, weight in weighted))
    total = Decimal(0)
    for value, weight in weighted:
        total = EXACT.add(total, EXACT.multiply(Decimal(value), Decimal(weight)))
    return total

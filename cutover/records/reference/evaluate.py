"""Evaluation of the definition's expressions over many records at once, by DuckDB."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.expressions.terms import map_spark_type_to_duckdb
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import parse_decimal_type
from cutover.quoting import identifier

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

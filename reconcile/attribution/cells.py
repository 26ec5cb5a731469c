"""Rows that differ, read from `touched`: the cells that a report lists, and a Parquet file with every row.

A cell is one (window, key, measure), with the steps between the sides. The records of the ledger that cause the listed
rows are given by partition and offset.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_number, fetch_row
from cutover.events import log
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution.causes import UNEXPLAINED, cause_sql, columns_sql
from cutover.reconcile.comparison.layout import SharedTable, Value
from cutover.reconcile.comparison.sides import Sides, key_columns
from cutover.reconcile.result.codec import Scalar, scalar
from cutover.reconcile.result.finding import CellStep, Difference
from cutover.reconcile.result.parts import RecordBehind

ROWS_AT_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    window: object
    key: Mapping[str, Scalar]
    kind: str
    explained: int
    classes: tuple[str, ...]
    values: Sequence[Sequence[Any]]  # per value: batch, then the stream after each stage


def read_cells(sides: Sides, *, condition: str = "true", limit: int = ROWS_AT_MOST) -> tuple[Difference, ...]:
    """Read the cells of some rows of `touched`: unexplained ones first, then by window and key.

    If there are more than `limit`, each kind of row contributes equally, so that a rare kind is not crowded out.

    Args:
        sides: Open sides, after `causes.find_causes`.
        condition: SQL condition over `touched t`.
        limit: Maximum number of rows (not cells).
    """
    selected_rows, order = listed_sql(sides, condition=condition, limit=limit), _order_sql(sides)
    query = f"SELECT {columns_sql(sides)} FROM {selected_rows} t ORDER BY least(_explained, 1), {order}"
    fetched = sides.connection.execute(query).fetchall()
    return tuple(cell for raw in fetched for cell in _make_cells(sides, _parse_row(sides, raw)))


def listed_sql(sides: Sides, *, condition: str = "true", limit: int) -> str:
    """Return the subquery, in parentheses, of the rows of `touched` that `read` selects; same arguments."""
    order = _order_sql(sides)
    kind = ", ".join(["_kind", "_explained", *(_is_apart_sql(sides, i, 0) for i in range(len(sides.layout.values)))])
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {kind} ORDER BY {order}) AS __rank FROM {SharedTable.TOUCHED}"
    return (
        f"(SELECT * FROM ({ranked}) t WHERE {condition} ORDER BY least(_explained, 1), __rank, {order} LIMIT {limit:d})"
    )


def _order_sql(sides: Sides) -> str:
    return f"{key_columns(sides.layout)}, __copy"


def _parse_row(sides: Sides, raw: Sequence[Any]) -> _Row:
    names, stages = sides.layout.keys, len(sides.merged) + 1
    key_end = len(names)
    taking_part = raw[key_end + 2 : key_end + 2 + len(sides.merged)]
    classes = [str(name) for name, part in zip(sides.merged, taking_part, strict=True) if part]
    if raw[key_end + 1] == 0:
        classes.append(UNEXPLAINED)
    flat = raw[key_end + 2 + len(sides.merged) :]
    return _Row(
        window=raw[0],
        key={name: scalar(value) for name, value in zip(names[1:], raw[1:key_end], strict=True)},
        kind=str(raw[key_end]),
        explained=int(raw[key_end + 1]),
        classes=tuple(classes),
        values=[flat[i : i + stages + 1] for i in range(0, len(flat), stages + 1)],
    )


def _make_cells(sides: Sides, row: _Row) -> list[Difference]:
    """Return a row's cells that differ: its measures, or if none does, its states and number of records."""
    differing = [(value, v) for value, v in zip(sides.layout.values, row.values, strict=True) if _differs(value, v)]
    shown_values = [(value, v) for value, v in differing if value.is_measure] or differing
    return [_make_cell(sides, row, value, values) for value, values in shown_values]


def _differs(value: Value, values: Sequence[Any]) -> bool:
    batch = values[0]
    return any(not are_equal(value, batch, streaming) for streaming in values[1:])


def are_equal(value: Value, left: Any, right: Any) -> bool:
    """Return whether two values of a column are equal within its tolerance; two nulls are equal, and two NaN."""
    if left is None or right is None or value.exact:
        return bool(left is right or left == right)
    if left == right or (math.isnan(left) and math.isnan(right)):
        return True
    if not (math.isfinite(left) and math.isfinite(right)):
        return False
    tolerance = max(value.absolute, value.relative * max(abs(left), abs(right)))
    return bool(abs(left - right) <= tolerance)


def _make_cell(sides: Sides, row: _Row, value: Value, values: Sequence[Any]) -> Difference:
    batch, streaming = values[0], values[1]
    return Difference(
        window_start=None if row.window is None else str(scalar(row.window)),
        key=row.key,
        measure=value.name,
        kind=row.kind,
        streaming=scalar(streaming),
        batch=scalar(batch),
        difference=subtract(streaming, batch, additive=value.additive),
        cause=" + ".join(row.classes) or UNEXPLAINED,
        steps=tuple(_make_steps(sides, row, value, values)),
    )


def _make_steps(sides: Sides, row: _Row, value: Value, values: Sequence[Any]) -> list[CellStep]:
    """Return the steps from the stream's value to the batch's, one class at a time; a remaining one is unexplained."""
    steps = []
    for name, previous, merged in zip(sides.merged, values[1:], values[2:], strict=False):
        if str(name) in row.classes:
            steps.append(CellStep(cause=str(name), before=scalar(previous), after=scalar(merged)))
    if not are_equal(value, values[-1], values[0]):
        steps.append(CellStep(cause=UNEXPLAINED, before=scalar(values[-1]), after=scalar(values[0])))
    return steps


def subtract(left: Any, right: Any, *, additive: bool) -> Scalar:
    """Return left - right of two numbers (a null counts as 0 in an additive measure); None for other values."""
    numbers = [value for value in (left, right) if value is not None]
    if len(numbers) < (1 if additive else 2) or any(
        isinstance(v, bool) or not isinstance(v, int | float | Decimal) for v in numbers
    ):
        return None
    return scalar((left if left is not None else 0) - (right if right is not None else 0))


def count_cells(sides: Sides) -> int:
    """Count the cells of all rows of `touched` in which the sides differ (measures only, not states)."""
    measures = [i for i, value in enumerate(sides.layout.values) if value.is_measure]
    cell_flags = [
        f"CASE WHEN {' OR '.join(_is_apart_sql(sides, i, n) for n in range(len(sides.merged) + 1))} THEN 1 ELSE 0 END"
        for i in measures
    ]
    return fetch_number(
        sides.connection, f"SELECT sum(greatest(1, {' + '.join(cell_flags)})) FROM {SharedTable.TOUCHED}"
    )


def _is_apart_sql(sides: Sides, i: int, n: int) -> str:
    return sides.layout.values[i].differs(f"__b{i}", f"__v{n}_{i}")


_LONGEST = 10**38  # exclusive bound of a decimal

RECORDS_AT_MOST = 1_500
OF_A_ROW_AT_MOST = 10


def write_all_differences(sides: Sides, path: Path) -> None:
    """Write a row for each (window, key) that differs, by window and key, unless the disk is full.

    Columns: `window_start`; `key`, a struct of the key's columns (absent if the key has none); `row` (missing, extra,
    changed; masked: the sides agree although they should not); `cause` as in a report; `batch` and `streaming`, structs
    of all measures, each with its type. A full disk is a warning: the report then states that there is no such file.

    Args:
        sides: Open sides for which `causes.find_causes` has run.
        path: The file; its folder is created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sides.connection.execute(f"COPY ({_query(sides)}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")
    except (OSError, duckdb.IOException) as error:
        path.unlink(missing_ok=True)
        log.warning("differences_not_written", error=str(error))


def _query(sides: Sides) -> str:
    window, *keys = map(identifier, sides.layout.keys)
    measures = [i for i, value in enumerate(sides.layout.values) if value.is_measure]
    columns = [
        f"{window} AS window_start",
        *_struct("key", sides.layout.keys[1:], keys),
        '_kind AS "row"',
        f"{_cause_sql(sides)} AS cause",
    ]
    for side, column in (("batch", "__b{}"), ("streaming", "__v0_{}")):
        names = [sides.layout.values[i].name for i in measures]
        columns += _struct(side, names, [_cast_sql(sides, column.format(i)) for i in measures])
    return f"SELECT {', '.join(columns)} FROM {SharedTable.TOUCHED} t ORDER BY {key_columns(sides.layout)}, __copy"


def _struct(name: str, fields: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yield a struct of columns; nothing without columns, because SQL has no empty struct."""
    if fields:
        packed = ", ".join(f"{identifier(field)} := {column}" for field, column in zip(fields, columns, strict=True))
        yield f"struct_pack({packed}) AS {identifier(name)}"


def _cause_sql(sides: Sides) -> str:
    parts = [f"CASE WHEN {cause_sql(sides, name)} THEN {literal(str(name))} END" for name in sides.merged]
    parts.append(f"CASE WHEN t._explained = 0 THEN {literal(UNEXPLAINED)} END")
    return f"coalesce(nullif(concat_ws(' + ', {', '.join(parts)}), ''), {literal(UNEXPLAINED)})"


def _cast_sql(sides: Sides, column: str) -> str:
    """Return SQL that casts a value to a type of Parquet, which would store an integer of 128 bits as a double."""
    kind, largest = fetch_row(
        sides.connection, f"SELECT any_value(typeof({column})), max({column}) FROM {SharedTable.TOUCHED}"
    )
    if kind not in {"HUGEINT", "UHUGEINT"}:
        return column
    lowest = fetch_row(sides.connection, f"SELECT min({column}) FROM {SharedTable.TOUCHED}")[0]
    fits = max(abs(largest or 0), abs(lowest or 0)) < _LONGEST
    return f"{column}::{'DECIMAL(38, 0)' if fits else 'VARCHAR'}"


def read_records_behind(sides: Sides, pipeline: Pipeline, *, limit: int) -> tuple[RecordBehind, ...]:
    """Read the records of the merged classes for the rows that `cells.read` lists, by offset.

    Args:
        sides: Open sides for which `causes.find_causes` has run.
        pipeline: The definition.
        limit: Maximum number of rows, as for `cells.read`.
    """
    classes = ", ".join(literal(str(name)) for name in sides.merged)
    if not classes:
        return ()
    record_columns = ", ".join(
        f"l.{column}" for column in ("_class", "_partition", "_offset", "event_time", "_epoch", "reason")
    )
    keys = ", ".join(f"t.{identifier(name)}" for name in sides.layout.keys)
    order = "l._partition, l._offset, l._class, l._epoch, l.event_time, l.reason"
    query = f"""
        SELECT {keys}, {record_columns} FROM {listed_sql(sides, limit=limit)} t
        JOIN {SharedTable.LEDGER} l ON {sides.layout.same_place("l", "t")} AND l._class IN ({classes})
        WHERE t.__copy = 1
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) <= {OF_A_ROW_AT_MOST}
        ORDER BY {keys}, {order} LIMIT {RECORDS_AT_MOST}
    """
    key_width = len(sides.layout.keys)
    return tuple(
        RecordBehind(
            window_start=str(scalar(row[0])),
            key={name: scalar(value) for name, value in zip(pipeline.key, row[1:key_width], strict=True)},
            cause=str(row[key_width]),
            partition=int(row[key_width + 1]),
            offset=int(row[key_width + 2]),
            event_time=None if row[key_width + 3] is None else str(scalar(row[key_width + 3])),
            epoch=int(row[key_width + 4]),
            reason=row[key_width + 5],
        )
        for row in sides.connection.execute(query).fetchall()
    )

"""Parquet file with every row that differs; a report lists only some of them.

The records of the ledger that cause the listed rows are given by partition and offset.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from cutover.definition.model.pipeline import Pipeline
from cutover.engine.queries import fetch_row
from cutover.events import log
from cutover.quoting import identifier, literal
from cutover.reconcile.attribution import cells
from cutover.reconcile.attribution.causes import UNEXPLAINED, cause_sql
from cutover.reconcile.comparison.layout import SharedTable
from cutover.reconcile.comparison.sides import Sides, key_columns
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.parts import RecordBehind

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
        SELECT {keys}, {record_columns} FROM {cells.listed_sql(sides, limit=limit)} t
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

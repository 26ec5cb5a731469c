"""Planted defects: kinds of defects, those drawn for a trial, and the results that a comparison must return.

A kind edits some rows of one side; a row is a mapping of columns to plain values. The expected result is computed
independently in Python from each folded row before and after the change.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.quoting import identifier
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.cells import are_equal
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.finding import DIMENSION, Place
from cutover.reconcile.selftest import copied_lake
from cutover.reconcile.selftest.copied_lake import (
    CleanCopy,
    OtherVersion,
    PlantColumns,
    PlantSide,
    TableRows,
    change_value,
)
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.timestamps import parse_micros

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


class Choice(StrEnum):
    """Rows that a defect changes."""

    ANY = "any"  # here and there
    RUN = "run"  # in a row: of one epoch, or of neighbouring windows
    PAIRS = "pairs"  # two and two of one window


Edit = Callable[[Rows, PlantColumns, Random], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantKind:
    """One sort of defect."""

    name: str
    edit: Edit  # chosen rows -> their replacement
    sides: tuple[PlantSide, ...] = (PlantSide.STREAM, PlantSide.BATCH)
    choice: Choice = Choice.ANY
    max_rows: int = 20  # rows


def _drop(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    del rows, columns, random
    return []


def _duplicate(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    del columns, random
    return [*rows, *(dict(row) for row in rows)]


def _delay(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Count rows one window too late."""
    del columns, random
    return [_shift(row, row["window_end"] - row["window_start"]) for row in rows]


def _shift_zone(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Take local times for UTC."""
    del columns
    hours = random.choice([hours for hours in range(-12, 15) if hours])
    return [_shift(row, timedelta(hours=hours)) for row in rows]


def _shift(row: Row, by: timedelta) -> dict[str, Any]:
    return dict(row) | {name: row[name] + by for name in ("window_start", "window_end")}


def _change_values(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Change one value of each row, by its kind."""
    return [_change_one(row, columns.values, random) for row in rows]


def _change_one(row: Row, names: Sequence[str], random: Random) -> dict[str, Any]:
    name = random.choice(names)
    return dict(row) | {name: change_value(row[name], random)}


def _lose_value(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Leave one value of each row empty."""
    return [dict(row) | {random.choice(columns.values): None} for row in rows]


def _round(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Round numbers with a fraction to whole ones."""
    del random
    numbers = {name for name in columns.values for row in rows if isinstance(row[name], float | Decimal)}
    return [dict(row) | {name: _round_value(row[name]) for name in sorted(numbers)} for row in rows]


def _round_value(value: Any) -> Any:
    return None if value is None else round(value) if value == value else value  # noqa: PLR0124 -- NaN stays


def _swap_keys(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Give each of two rows the values of the other one."""
    del random
    pairs = zip(rows[::2], rows[1::2], strict=False)
    return [dict(a) | {n: b[n] for n in columns.values} for pair in pairs for a, b in (pair, pair[::-1])]


ROW_KINDS = (
    PlantKind(name="dropped rows", edit=_drop),
    PlantKind(name="doubled rows", edit=_duplicate),
    PlantKind(name="delayed rows", edit=_delay),
    PlantKind(name="changed values", edit=_change_values),
    PlantKind(name="lost values", edit=_lose_value),
    PlantKind(name="lost range", edit=_drop, choice=Choice.RUN, max_rows=100),
    PlantKind(name="shifted time zone", edit=_shift_zone, choice=Choice.RUN, max_rows=50),
    PlantKind(name="rounded numbers", edit=_round),
    PlantKind(name="swapped keys", edit=_swap_keys, choice=Choice.PAIRS),
)
"""What changes rows; whether an edit changes a result is found out by folding, so none is counted that does not."""

REORDERED, TRUNCATED, FLIPPED = "reordered rows", "truncated table", "flipped bit"
"""Edits of a whole table. Reordered rows are no defect: any finding there is a false alarm."""

OTHER_VERSION = "other dimension row"
"""Batch joined a stretch of the log with other rows of a dimension than the stream did."""


PLANTS_AT_MOST, DRAWS, VERSION_DRAWS = 4, 12, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRow:
    """A (window, key) row that a plant changes."""

    place: Place
    kind: str  # missing, extra or changed, seen from batch; masked: the sides agree, and should not
    cause: str = UNEXPLAINED  # that a report must name


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Planted defect, with the result that a comparison must return."""

    kind: str
    side: PlantSide
    removed_rows: tuple[int, ...] = ()  # rows of the side's table
    replacement: pa.Table | None = None  # in their place
    expected: tuple[PlantedRow, ...] = ()  # empty: a whole table was edited, or the edit is no defect
    not_compared: int = 0  # other changed rows: in windows that are not compared, or without a cause before
    places: frozenset[Place] = frozenset()  # of all its rows, before and after the edit
    version: OtherVersion | None = None  # of a dimension that batch joined with


def find_scope(clean: CleanCopy, place: Place) -> object:
    """Return the scope that a change of a row can affect: its place; for sessions everything with its key."""
    return place[1] if clean.pipeline.window.merges else place


def draw_table_plant(random: Random) -> Plant:
    """Draw an edit of a whole table: its rows reordered (no defect), all removed, or one bit of a file flipped."""
    return Plant(kind=random.choice((REORDERED, TRUNCATED, FLIPPED)), side=random.choice([*PlantSide]))


def draw_row_plants(clean: CleanCopy, random: Random) -> list[Plant]:
    """Draw one to four defects of rows whose scopes do not overlap; a small table may give fewer."""
    count, plants = random.randint(1, PLANTS_AT_MOST), list[Plant]()
    affected_scopes: set[object] = set()  # two plants in one scope could undo each other
    for _ in range(DRAWS):
        if len(plants) == count:
            break
        plant = _draw_row_plant(clean, random)
        if plant is None or not plant.expected:
            continue
        scopes = {find_scope(clean, place) for place in plant.places}
        if not scopes & affected_scopes:
            plants.append(plant)
            affected_scopes |= scopes
    return plants


def _draw_row_plant(clean: CleanCopy, random: Random) -> Plant | None:
    """Draw a plant, which may change nothing; None if the table has no rows for it."""
    kind = random.choice(ROW_KINDS)
    side = random.choice(kind.sides)
    table = clean.tables[side]
    row_numbers = _draw_candidates(table, kind, random) if table.candidates else []
    if not row_numbers:
        return None
    rows: Rows = table.rows.take(pa.array(row_numbers, pa.int64())).to_pylist()
    edited_rows = kind.edit(rows, clean.columns[side], random)
    replacement = pa.Table.from_pylist(edited_rows, schema=table.rows.schema)
    places = frozenset(place_of_row(row, clean.pipeline.key) for row in (*rows, *replacement.to_pylist()))
    expected, not_compared = _predict_result(clean, side, row_numbers, replacement)
    return Plant(
        kind=kind.name,
        side=side,
        removed_rows=tuple(row_numbers),
        replacement=replacement,
        expected=expected,
        not_compared=not_compared,
        places=places,
    )


def _draw_candidates(table: TableRows, kind: PlantKind, random: Random) -> list[int]:
    """Draw some candidates in the way that the kind of defect requires."""
    count = random.randint(1, min(kind.max_rows, len(table.candidates)))
    if kind.choice is Choice.ANY:
        return sorted(random.sample(table.candidates, count))
    start = random.randrange(len(table.candidates))
    near = [*table.candidates[start : start + max(count, 2)]]
    if kind.choice is Choice.PAIRS:
        return near[:2] if len(near) > 1 else []
    epochs = table.rows["_epoch"].take(pa.array(near, pa.int64())).to_pylist()
    return [row for row, epoch in zip(near, epochs, strict=True) if epoch == epochs[0]]


def draw_version_plant(clean: CleanCopy, random: Random) -> Plant | None:
    """Draw the rows that batch would have with other rows of a dimension; None if no draw changes any."""
    for _ in range(VERSION_DRAWS):
        version = copied_lake.draw_version(clean, random)
        if version is None:
            continue
        expected, not_compared = _predict_result(clean, PlantSide.BATCH, version.removed_rows, version.replacement)
        struck = [*clean.tables[PlantSide.BATCH].rows.take(pa.array(version.removed_rows, pa.int64())).to_pylist()]
        if expected:
            return Plant(
                kind=OTHER_VERSION,
                side=PlantSide.BATCH,
                removed_rows=version.removed_rows,
                replacement=version.replacement,
                expected=tuple(replace(planted_row, cause=DIMENSION) for planted_row in expected),
                not_compared=not_compared,
                places=frozenset(
                    place_of_row(row, clean.pipeline.key) for row in (*struck, *version.replacement.to_pylist())
                ),
                version=version,
            )
    return None


def _predict_result(
    clean: CleanCopy, side: PlantSide, removed_rows: Sequence[int], replacement: pa.Table
) -> tuple[tuple[PlantedRow, ...], int]:
    """Return the changed rows that a comparison must find, and the number of other changed rows."""
    rows = {table_side: clean.tables[table_side].rows for table_side in PlantSide}
    struck = pa.concat_tables([rows[side].take(pa.array(removed_rows, pa.int64())), replacement])
    edited = rows | {side: replace_rows(rows[side], removed_rows, replacement)}
    results_before, results_after = (_results(clean, side, tables[side], struck) for tables in (rows, edited))
    changed_rows = find_changed_rows(
        results_before, results_after, key=clean.pipeline.key, layout=clean.layout, side=side
    )
    expected_rows = [
        planted_row
        for planted_row in changed_rows
        if clean.is_judged(parse_micros(planted_row.place[0])) and planted_row.place not in clean.unexplained_places
    ]
    if clean.late.num_rows:
        expected_rows = _set_reported_kinds(
            clean, expected_rows, edited[PlantSide.STREAM], edited[PlantSide.BATCH], struck
        )
    return tuple(expected_rows), len(changed_rows) - len(expected_rows)


def _results(clean: CleanCopy, side: PlantSide, rows: pa.Table, struck: pa.Table) -> Rows:
    """Return the results of all keys that an edit changes, with late rows merged."""
    if side is PlantSide.BATCH:
        return select_rows_by_key(clean.pipeline, rows, struck)
    merged = pa.concat_tables([rows, clean.late])
    return fold_rows(clean.pipeline, merged, struck, upto=clean.epoch, keep=(Class.ACCEPTED, Class.LATE))


def _set_reported_kinds(
    clean: CleanCopy, planted_rows: Sequence[PlantedRow], stream: pa.Table, batch: pa.Table, struck: pa.Table
) -> list[PlantedRow]:
    """Set the kinds that a report shows: those of the served rows, without late records."""
    kinds = shown_kinds(
        fold_rows(clean.pipeline, stream, struck, upto=clean.epoch, keep=(Class.ACCEPTED,)),
        select_rows_by_key(clean.pipeline, batch, struck),
        [planted_row.place for planted_row in planted_rows],
        key=clean.pipeline.key,
        layout=clean.layout,
    )
    return [replace(planted_row, kind=kinds[planted_row.place]) for planted_row in planted_rows]


def replace_rows(rows: pa.Table, removed_rows: Iterable[int], replacement: pa.Table) -> pa.Table:
    """Return a table with some rows removed and others appended."""
    mask = [True] * rows.num_rows
    for row in removed_rows:
        mask[row] = False
    return pa.concat_tables([rows.filter(pa.array(mask)), replacement])


def place_of_row(row: Row, key: Sequence[str]) -> Place:
    """Return the place of a result row, as a report names it."""
    return str(scalar(row["window_start"])), json.dumps({name: scalar(row[name]) for name in key}, sort_keys=True)


def fold_rows(
    pipeline: Pipeline, partials: pa.Table, struck: pa.Table, *, upto: int, keep: Sequence[Class]
) -> list[dict[str, Any]]:
    """Fold the stream's rows of some keys into results.

    Args:
        pipeline: The definition.
        partials: Rows of the partial shape, with `_epoch`.
        struck: Rows with the keys.
        upto: The last epoch that counts.
        keep: Classes that count.
    """
    with queries.open_duckdb() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, partials, struck)
        folded = finish_sql(pipeline, f"({keys_sql} AND _epoch <= {upto})", keep=tuple(keep))
        rows: list[dict[str, Any]] = connection.sql(folded).to_arrow_table().to_pylist()
        return rows


def select_rows_by_key(pipeline: Pipeline, rows: pa.Table, struck: pa.Table) -> list[dict[str, Any]]:
    """Select the results for the keys that an edit changed."""
    with queries.open_duckdb() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, rows, struck)
        selected_rows: list[dict[str, Any]] = connection.sql(keys_sql).to_arrow_table().to_pylist()
        return selected_rows


def _select_keys_sql(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, rows: pa.Table, struck: pa.Table
) -> str:
    connection.register("all_rows", rows)
    connection.register("struck_rows", struck.select(list(pipeline.key) or ["window_start"]))
    is_same_key = (f"p.{name} IS NOT DISTINCT FROM k.{name}" for name in map(identifier, pipeline.key))
    exists = f"SELECT 1 FROM struck_rows k WHERE {' AND '.join(is_same_key) or 'true'}"
    return f"SELECT p.* FROM all_rows p WHERE EXISTS ({exists})"


def find_changed_rows(
    original_rows: Iterable[Row], edited_rows: Iterable[Row], *, key: Sequence[str], layout: Layout, side: PlantSide
) -> tuple[PlantedRow, ...]:
    """Compare the results of a side before and after an edit, and return the rows that changed.

    Args:
        original_rows: All results at some places.
        edited_rows: The same results after the edit.
        key: Key columns.
        layout: Columns that are compared, with their tolerances.
        side: Whose rows they are: a row that batch lacks is extra.
    """
    original_by_place, edited_by_place = _by_place(original_rows, key), _by_place(edited_rows, key)
    removed_kind, added_kind = ("missing", "extra") if side is PlantSide.STREAM else ("extra", "missing")
    rows = []
    for place in sorted(original_by_place.keys() | edited_by_place.keys()):
        old, new = original_by_place.get(place, []), edited_by_place.get(place, [])
        if len(old) != len(new):
            rows.append(PlantedRow(place=place, kind=removed_kind if len(old) > len(new) else added_kind))
        elif not _is_same(old, new, layout):
            rows.append(PlantedRow(place=place, kind="changed"))
    return tuple(rows)


def shown_kinds(
    stream: Iterable[Row], batch: Iterable[Row], places: Iterable[Place], *, key: Sequence[str], layout: Layout
) -> Mapping[Place, str]:
    """Return the kinds that a report shows at some places, from the served rows and those of batch."""
    stream_by_place, batch_by_place = _by_place(stream, key), _by_place(batch, key)
    kinds = {}
    for place in places:
        actual, expected = stream_by_place.get(place, []), batch_by_place.get(place, [])
        if len(actual) != len(expected):
            kinds[place] = "missing" if len(actual) < len(expected) else "extra"
        else:
            kinds[place] = "masked" if _is_same(actual, expected, layout) else "changed"
    return kinds


def _by_place(rows: Iterable[Row], key: Sequence[str]) -> Mapping[Place, list[Row]]:
    rows_by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        rows_by_place[place_of_row(row, key)].append(row)
    return rows_by_place


def _is_same(old: Sequence[Row], new: Sequence[Row], layout: Layout) -> bool:
    """Return whether the rows of one place are equal within the tolerances, in any order."""
    unmatched = list(new)
    for row in old:
        twin = next((candidate for candidate in unmatched if _is_equal(row, candidate, layout)), None)
        if twin is None:
            return False
        unmatched.remove(twin)
    return True


def _is_equal(old: Row, new: Row, layout: Layout) -> bool:
    return all(are_equal(value, old[value.name], new[value.name]) for value in layout.values if value.name in old)

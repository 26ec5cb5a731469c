"""Drawn plants: the defect, the rows that it changes, and the result that a comparison must return."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from cutover.reconcile.result.finding import DIMENSION
from cutover.reconcile.selftest import copied_lake
from cutover.reconcile.selftest.copied_lake import CleanCopy, OtherVersion
from cutover.reconcile.selftest.plants import (
    FLIPPED,
    OTHER_VERSION,
    REORDERED,
    ROW_KINDS,
    TRUNCATED,
    PlantSide,
    Rows,
)
from cutover.reconcile.selftest.truth import (
    PlantedRow,
    find_changed_rows,
    fold_rows,
    place_of_row,
    select_rows_by_key,
    shown_kinds,
)
from cutover.reconcile.verdict.acceptance import Place
from cutover.records.classes import Class
from cutover.timestamps import parse_micros

PLANTS_AT_MOST, DRAWS, VERSION_DRAWS = 4, 12, 3


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
    row_numbers = table.draw(kind, random) if table.candidates else []
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

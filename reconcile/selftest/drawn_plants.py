"""Plants as they are drawn: which defect, which rows it strikes, and what a comparison must say of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from cutover.reconcile.comparison.sides import DIMENSION
from cutover.reconcile.selftest import other_versions
from cutover.reconcile.selftest.clean_copy import CleanCopy
from cutover.reconcile.selftest.other_versions import OtherVersion
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
    compare_rows,
    fold_rows,
    place_of_row,
    rows_of_keys,
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
    gone: tuple[int, ...] = ()  # rows of the side's table
    made: pa.Table | None = None  # in their place
    expected: tuple[PlantedRow, ...] = ()  # none: a whole table was struck, or nothing may be found
    unjudged: int = 0  # rows changed besides, in windows that are not judged or without a cause before
    places: frozenset[Place] = frozenset()  # of its rows, before and after, changed or not, judged or not
    version: OtherVersion | None = None  # of a dimension: what batch joined with


def reach(clean: CleanCopy, place: Place) -> object:
    """Return what a change of a row may reach: of sessions all of its key."""
    return place[1] if clean.pipeline.window.merges else place


def draw_table_plant(random: Random) -> Plant:
    """Draw a side, and whether its rows are reordered (no defect), its table emptied or one bit of a file flipped."""
    return Plant(kind=random.choice((REORDERED, TRUNCATED, FLIPPED)), side=random.choice([*PlantSide]))


def draw_row_plants(clean: CleanCopy, random: Random) -> list[Plant]:
    """Return one to four defects of rows, none within reach of another one; few rows may give fewer."""
    wanted, plants = random.randint(1, PLANTS_AT_MOST), list[Plant]()
    struck: set[object] = set()  # what plants may reach: two at one place could undo one another
    for _ in range(DRAWS):
        if len(plants) == wanted:
            break
        plant = _draw_row_plant(clean, random)
        if plant is None or not plant.expected:
            continue
        reached = {reach(clean, place) for place in plant.places}
        if not reached & struck:
            plants.append(plant)
            struck |= reached
    return plants


def _draw_row_plant(clean: CleanCopy, random: Random) -> Plant | None:
    """Return a plant, one that may change nothing; None: there are no rows for it."""
    kind = random.choice(ROW_KINDS)
    side = random.choice(kind.sides)
    table = clean.tables[side]
    chosen = table.draw(kind, random) if table.candidates else []
    if not chosen:
        return None
    rows: Rows = table.rows.take(pa.array(chosen, pa.int64())).to_pylist()
    after = kind.edit(rows, clean.columns[side], random)
    made = pa.Table.from_pylist(after, schema=table.rows.schema)
    places = frozenset(place_of_row(row, clean.pipeline.key) for row in (*rows, *made.to_pylist()))
    expected, unjudged = _expect(clean, side, chosen, made)
    return Plant(
        kind=kind.name,
        side=side,
        gone=tuple(chosen),
        made=made,
        expected=expected,
        unjudged=unjudged,
        places=places,
    )


def draw_version_plant(clean: CleanCopy, random: Random) -> Plant | None:
    """Return batch's rows as they would be with other rows of a dimension; None: no draw changes any."""
    for _ in range(VERSION_DRAWS):
        version = other_versions.draw(clean, random)
        if version is None:
            continue
        expected, unjudged = _expect(clean, PlantSide.BATCH, version.gone, version.made)
        struck = [*clean.tables[PlantSide.BATCH].rows.take(pa.array(version.gone, pa.int64())).to_pylist()]
        if expected:
            return Plant(
                kind=OTHER_VERSION,
                side=PlantSide.BATCH,
                gone=version.gone,
                made=version.made,
                expected=tuple(replace(one, cause=DIMENSION) for one in expected),
                unjudged=unjudged,
                places=frozenset(place_of_row(row, clean.pipeline.key) for row in (*struck, *version.made.to_pylist())),
                version=version,
            )
    return None


def _expect(
    clean: CleanCopy, side: PlantSide, gone: Sequence[int], table: pa.Table
) -> tuple[tuple[PlantedRow, ...], int]:
    """Return the rows that an edit changes and a comparison must find, and how many others it changes."""
    rows = {one: clean.tables[one].rows for one in PlantSide}
    struck = pa.concat_tables([rows[side].take(pa.array(gone, pa.int64())), table])
    edited = rows | {side: replace_rows(rows[side], gone, table)}
    before, after = (_results(clean, side, tables[side], struck) for tables in (rows, edited))
    changed = compare_rows(before, after, key=clean.pipeline.key, layout=clean.layout, side=side)
    judged = [one for one in changed if clean.is_judged(parse_micros(one.place[0])) and one.place not in clean.known]
    if clean.late.num_rows:
        judged = _name_as_shown(clean, judged, edited[PlantSide.STREAM], edited[PlantSide.BATCH], struck)
    return tuple(judged), len(changed) - len(judged)


def _results(clean: CleanCopy, side: PlantSide, rows: pa.Table, struck: pa.Table) -> Rows:
    """Return the results of all keys that an edit touches, late rows merged."""
    if side is PlantSide.BATCH:
        return rows_of_keys(clean.pipeline, rows, struck)
    merged = pa.concat_tables([rows, clean.late])
    return fold_rows(clean.pipeline, merged, struck, upto=clean.epoch, keep=(Class.ACCEPTED, Class.LATE))


def _name_as_shown(
    clean: CleanCopy, planted_rows: Sequence[PlantedRow], stream: pa.Table, batch: pa.Table, struck: pa.Table
) -> list[PlantedRow]:
    """Return the rows with the kinds that a report shows: of what the stream serves, without late rows."""
    kinds = shown_kinds(
        fold_rows(clean.pipeline, stream, struck, upto=clean.epoch, keep=(Class.ACCEPTED,)),
        rows_of_keys(clean.pipeline, batch, struck),
        [planted_row.place for planted_row in planted_rows],
        key=clean.pipeline.key,
        layout=clean.layout,
    )
    return [replace(planted_row, kind=kinds[planted_row.place]) for planted_row in planted_rows]


def replace_rows(rows: pa.Table, gone: Iterable[int], table: pa.Table) -> pa.Table:
    """Return a table with other rows in place of some."""
    mask = [True] * rows.num_rows
    for row in gone:
        mask[row] = False
    return pa.concat_tables([rows.filter(pa.array(mask)), table])

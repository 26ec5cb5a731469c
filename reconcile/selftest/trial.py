"""One trial: draw defects, plant them in a copy of their own, compare, and count what was found, and as what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.judge import judge
from cutover.reconcile.judgement.acceptance import Place, place_of
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.outcome import Reconciliation, Verdict
from cutover.reconcile.selftest.clean_copy import ROWS_LISTED, CleanCopy, list_causes
from cutover.reconcile.selftest.copied_lake import link_tree
from cutover.reconcile.selftest.plants import (
    FLIPPED,
    REORDERED,
    ROW_KINDS,
    TRUNCATED,
    PlantSide,
    Rows,
)
from cutover.reconcile.selftest.table_rows import flip_bit, put_rows
from cutover.reconcile.selftest.truth import PlantedRow, compare_rows, fold_rows, place_of_row, rows_of_keys
from cutover.settings import Settings
from cutover.timestamps import parse_micros

TABLE_SHARE = 0.2
"""Share of trials in which a table as a whole is struck, and nothing else."""

PLANTS_AT_MOST, DRAWS = 4, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What was planted, and what must be found."""

    kind: str
    side: PlantSide
    gone: tuple[int, ...] = ()  # rows of the side's table
    made: pa.Table | None = None  # in their place
    expected: tuple[PlantedRow, ...] = ()  # none: a whole table was struck, or nothing may be found
    places: frozenset[Place] = frozenset()  # of its rows, before and after, changed or not, judged or not


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantResult:
    """What became of one plant."""

    kind: str
    planted: int
    found: int
    named: int
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What one comparison said."""

    plants: tuple[PlantResult, ...]
    clean_windows: int = 0  # compared, and nothing was planted in them
    false_alarms: int = 0  # of these
    kept: int = 0  # rows that differed before and were left alone
    kept_right: int = 0  # of these: rows with the same cause as before
    failures: tuple[str, ...] = ()


def run_trial(clean: CleanCopy, number: int, seed: int) -> TrialResult:
    """Draw and judge one trial; the same seed and number draw the same from the same tables.

    Args:
        clean: The untouched copy.
        number: Of the trial.
        seed: Of the self-test.
    """
    random = Random(f"{seed}/{number}")  # noqa: S311 -- draws defects, no secret
    is_whole = random.random() < TABLE_SHARE
    plants = [_draw_table_plant(random)] if is_whole else _draw_row_plants(clean, random)
    home = clean.settings.home
    with TemporaryDirectory(prefix="trial-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        settings = clean.settings.model_copy(update={"home": Path(folder)})
        _plant(clean, settings, plants, random)
        found, _ = judge(settings, clean.pipeline, ComparisonRequest(log=clean.log, listed=ROWS_LISTED))
    label = f"trial {number}"
    if is_whole and plants[0].kind != REORDERED:
        return TrialResult(plants=(_judge_table(plants[0], found, label),))
    if found.verdict is Verdict.NOT_COMPARABLE:
        return _judge_refused(plants, found, label)
    return _judge_rows(clean, plants, found, label)


def _draw_table_plant(random: Random) -> Plant:
    return Plant(kind=random.choice((REORDERED, TRUNCATED, FLIPPED)), side=random.choice([*PlantSide]))


def _draw_row_plants(clean: CleanCopy, random: Random) -> list[Plant]:
    wanted, plants = random.randint(1, PLANTS_AT_MOST), list[Plant]()
    struck: set[object] = set()  # what plants may reach: two at one place could undo one another
    for _ in range(DRAWS):
        if len(plants) == wanted:
            break
        plant = _draw_row_plant(clean, random)
        if plant is None or not plant.expected:
            continue
        reached = {_reach(clean, place) for place in plant.places}
        if not reached & struck:
            plants.append(plant)
            struck |= reached
    return plants


def _reach(clean: CleanCopy, place: Place) -> object:
    """Return what a change of a row may reach: of sessions all of its key."""
    return place[1] if clean.pipeline.window.merges else place


def _draw_row_plant(clean: CleanCopy, random: Random) -> Plant | None:
    """Return a plant that changes a result in judged windows; None if this one does not."""
    kind = random.choice([kind for kind in ROW_KINDS if kind.name != "other dimension row" or _has_lookup(clean)])
    side = random.choice(kind.sides)
    table = clean.tables[side]
    chosen = table.draw(kind, random) if table.candidates else []
    if not chosen:
        return None
    before: Rows = table.rows.take(pa.array(chosen, pa.int64())).to_pylist()
    after = kind.edit(before, clean.columns[side], random)
    made = pa.Table.from_pylist(after, schema=table.rows.schema)
    places = frozenset(place_of_row(row, clean.pipeline.key) for row in (*before, *made.to_pylist()))
    expected = tuple(_expect(clean, side, chosen, made))
    return Plant(kind=kind.name, side=side, gone=tuple(chosen), made=made, expected=expected, places=places)


def _has_lookup(clean: CleanCopy) -> bool:
    return bool(clean.columns[PlantSide.BATCH].looked_up)


def _expect(clean: CleanCopy, side: PlantSide, gone: Sequence[int], made: pa.Table) -> Iterator[PlantedRow]:
    """Yield the rows of judged windows that the edit changes."""
    for one in compare_rows(*_both(clean, side, gone, made), key=clean.pipeline.key, layout=clean.layout, side=side):
        if clean.is_judged(parse_micros(one.place[0])) and one.place not in clean.known:
            yield one


def _both(clean: CleanCopy, side: PlantSide, gone: Sequence[int], made: pa.Table) -> tuple[Rows, Rows]:
    """Return the results of all keys that an edit touches, before and after it."""
    rows = clean.tables[side].rows
    struck = pa.concat_tables([rows.take(pa.array(gone, pa.int64())), made])
    edited = _replace_rows(rows, gone, made)
    if side is PlantSide.BATCH:
        return rows_of_keys(clean.pipeline, rows, struck), rows_of_keys(clean.pipeline, edited, struck)
    before, after = (
        fold_rows(clean.pipeline, pa.concat_tables([table, clean.late]), struck, upto=clean.epoch)
        for table in (rows, edited)
    )
    return before, after


def _replace_rows(rows: pa.Table, gone: Iterable[int], made: pa.Table) -> pa.Table:
    mask = [True] * rows.num_rows
    for row in gone:
        mask[row] = False
    return pa.concat_tables([rows.filter(pa.array(mask)), made])


def _plant(clean: CleanCopy, settings: Settings, plants: Sequence[Plant], random: Random) -> None:
    for side in PlantSide:
        mine = [plant for plant in plants if plant.side is side]
        table = clean.tables[side]
        uri = str(settings.home / Path(table.uri).relative_to(clean.settings.home.resolve()))
        if not mine:
            continue
        if mine[0].kind == FLIPPED:
            flip_bit(uri, random.random())
        elif mine[0].kind == TRUNCATED:
            put_rows(uri, table.rows.slice(0, 0), kind=table.kind)
        elif mine[0].kind == REORDERED:
            order = random.sample(range(table.rows.num_rows), table.rows.num_rows)
            put_rows(uri, table.rows.take(pa.array(order, pa.int64())), kind=table.kind)
        else:
            gone = [row for plant in mine for row in plant.gone]
            made = pa.concat_tables([plant.made for plant in mine if plant.made is not None])
            put_rows(uri, _replace_rows(table.rows, gone, made), kind=table.kind)


def _judge_table(plant: Plant, found: Reconciliation, label: str) -> PlantResult:
    """Return whether a table that was struck as a whole led to anything but agreement, and by which word."""
    words = {FLIPPED: {Verdict.NOT_COMPARABLE}, TRUNCATED: {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}}[plant.kind]
    seen = found.verdict in {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}
    named = found.verdict in words
    failed = () if named else (f"{label}: {plant.kind} ({plant.side}): {found.verdict}: {found.sentence}",)
    return PlantResult(kind=plant.kind, planted=1, found=int(seen), named=int(named), failures=failed)


def _judge_rows(clean: CleanCopy, plants: Sequence[Plant], found: Reconciliation, label: str) -> TrialResult:
    """Return what a comparison found of planted rows, and whether it found anything else."""
    kinds: dict[Place, str] = {}
    for cell in found.differences:
        if UNEXPLAINED in cell.cause:
            kinds[place_of(cell)] = cell.kind
    results = tuple(_judge_plant(clean, plant, kinds, label) for plant in plants)
    expected = {one.place for plant in plants for one in plant.expected}
    reached = {_reach(clean, place) for place in expected}
    # A row that late ones explained has no cause any more where what is judged together with it was struck.
    drawn_in = {place for place in clean.causes if _reach(clean, place) in reached}
    false = sorted({place[0] for place in kinds if place not in expected | clean.known | drawn_in})
    touched = {place[0] for place in expected}
    now = list_causes(found)
    left = [place for place in clean.causes if _reach(clean, place) not in reached and place in now]
    right = [place for place in left if now[place] == clean.causes[place]]
    failures = [f"{label}: false alarm in window {start}" for start in false]
    failures += [f"{label}: row {place} has another cause than before" for place in left if place not in right]
    return TrialResult(
        plants=results,
        clean_windows=max(found.windows.compared - len(touched), 0),
        false_alarms=len(false),
        kept=len(left),
        kept_right=len(right),
        failures=tuple(failures),
    )


def _judge_plant(clean: CleanCopy, plant: Plant, kinds: dict[Place, str], label: str) -> PlantResult:
    """Return how many rows were found, and how many of these with the right kind."""
    seen = [one for one in plant.expected if one.place in kinds]
    named = [one for one in seen if _is_named(clean, one, kinds)]
    wrong = [one for one in plant.expected if one not in named]
    told = (f"{label}: {plant.kind} ({plant.side}): {_describe(one, kinds)}" for one in wrong)
    return PlantResult(
        kind=plant.kind, planted=len(plant.expected), found=len(seen), named=len(named), failures=tuple(told)
    )


def _judge_refused(plants: Sequence[Plant], found: Reconciliation, label: str) -> TrialResult:
    """Return what a refusal to compare found: the plant whose window it names; nothing is known of the others.

    A window of batch that no run of batch has computed is such a reason, also one that is not judged yet. One that
    names no planted window found that something is wrong, and not what.
    """
    blamed = [plant for plant in plants if any(start in found.sentence for start, _ in plant.places)]
    if blamed:
        return TrialResult(
            plants=tuple(
                PlantResult(kind=one.kind, planted=len(one.expected), found=len(one.expected), named=len(one.expected))
                for one in blamed
            )
        )
    unnamed = (
        PlantResult(kind=one.kind, planted=len(one.expected), found=len(one.expected), named=0) for one in plants
    )
    return TrialResult(plants=tuple(unnamed), failures=(f"{label}: {found.verdict}: {found.sentence}",))


def _is_named(clean: CleanCopy, one: PlantedRow, kinds: dict[Place, str]) -> bool:
    """Return whether a row has the kind it must have; where it differed before, late rows decide the kind."""
    return kinds[one.place] == one.kind or one.place in clean.causes


def _describe(one: PlantedRow, kinds: dict[Place, str]) -> str:
    return f"window {one.place[0]}, key {one.place[1]}: expected {one.kind}, got {kinds.get(one.place, 'nothing')}"

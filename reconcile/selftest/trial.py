"""One trial: draw defects, plant them in a separate copy, compare, and count the findings and their causes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.selftest import other_versions
from cutover.reconcile.selftest.clean_copy import ROWS_LISTED, CleanCopy
from cutover.reconcile.selftest.copied_lake import link_tree
from cutover.reconcile.selftest.drawn_plants import (
    Plant,
    draw_row_plants,
    draw_table_plant,
    draw_version_plant,
    replace_rows,
)
from cutover.reconcile.selftest.plants import FLIPPED, OTHER_VERSION, REORDERED, TRUNCATED, PlantSide
from cutover.reconcile.selftest.table_rows import flip_bit, put_rows
from cutover.reconcile.selftest.trial_result import (
    TrialResult,
    judge_blamed,
    judge_rows,
    judge_single,
    judge_table,
    split_refused,
)
from cutover.settings import Settings

TABLE_SHARE = 0.2
"""Share of trials that edit a whole table or a dimension, and nothing else."""

VERSION_SHARE = 0.5
"""Share of these in which it is a dimension, of a pipeline that has one."""


def run_trial(clean: CleanCopy, number: int, seed: int) -> tuple[TrialResult, ...]:
    """Draw and judge one trial; the same seed and number draw the same from the same tables.

    Args:
        clean: The untouched copy.
        number: Of the trial.
        seed: Of the self-test.

    Returns:
        One result a comparison: one more for each refusal that says nothing of some of the plants.
    """
    random = Random(f"{seed}/{number}")  # noqa: S311 -- draws defects, no secret
    label = f"trial {number}"
    if random.random() >= TABLE_SHARE:
        return tuple(_judge_row_plants(clean, draw_row_plants(clean, random), random, label))
    has_lookup = bool(other_versions.list_lookups(clean.pipeline)) and random.random() < VERSION_SHARE
    plant = (draw_version_plant(clean, random) if has_lookup else None) or draw_table_plant(random)
    if plant.kind in {REORDERED, OTHER_VERSION}:
        return tuple(_judge_row_plants(clean, [plant], random, label))
    return (judge_table(plant, _compare(clean, [plant], random), label),)


def _judge_row_plants(clean: CleanCopy, plants: Sequence[Plant], random: Random, label: str) -> Iterator[TrialResult]:
    """Yield what is said of plants; what a refusal does not speak of is planted and compared again without the rest."""
    found = _compare(clean, plants, random)
    if found.verdict is not Verdict.NOT_COMPARABLE:
        yield judge_rows(clean, plants, found, label)
        return
    blamed, rest = split_refused(plants, found)
    if blamed:
        yield judge_blamed(blamed)
    elif len(plants) == 1:
        yield judge_single(plants[0], found, label)
        return
    for again in [rest] if blamed and rest else [[plant] for plant in rest]:
        yield from _judge_row_plants(clean, again, random, label)


def _compare(clean: CleanCopy, plants: Sequence[Plant], random: Random) -> Finding:
    """Return what a comparison says of a copy with these plants."""
    home = clean.settings.home
    with TemporaryDirectory(prefix="trial-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        settings = clean.settings.model_copy(update={"home": Path(folder)})
        _plant(clean, settings, plants, random)
        return compare_at_cut(settings, clean.pipeline, ComparisonRequest(log=clean.log, listed=ROWS_LISTED)).finding


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
            put_rows(uri, replace_rows(table.rows, gone, made), kind=table.kind)
    for version in (plant.version for plant in plants if plant.version is not None):
        other_versions.put(settings, clean.pipeline, version)

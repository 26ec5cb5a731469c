"""One trial: draw defects, plant them in a separate copy, compare, and count the findings and their causes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.selftest import copied_lake
from cutover.reconcile.selftest.copied_lake import ROWS_LISTED, CleanCopy, flip_bit, link_tree, replace_table_rows
from cutover.reconcile.selftest.drawn_plants import (
    Plant,
    draw_row_plants,
    draw_table_plant,
    draw_version_plant,
    replace_rows,
)
from cutover.reconcile.selftest.plants import FLIPPED, OTHER_VERSION, REORDERED, TRUNCATED, PlantSide
from cutover.reconcile.selftest.trial_result import (
    TrialResult,
    count_named_plants,
    count_unnamed_plant,
    evaluate_table,
    evaluate_trial,
    split_by_reason,
)

TABLE_SHARE = 0.2
"""Share of trials that edit a whole table or a dimension, and nothing else."""

VERSION_SHARE = 0.5
"""Share of these in which it is a dimension, of a pipeline that has one."""


def run_trial(clean: CleanCopy, number: int, seed: int) -> tuple[TrialResult, ...]:
    """Draw and evaluate one trial; the same seed and number draw the same defects from the same tables.

    Args:
        clean: The untouched copy.
        number: Of the trial.
        seed: Of the self-test.

    Returns:
        One result per comparison: one more whenever a rejected comparison does not name some of the plants.
    """
    random = Random(f"{seed}/{number}")  # noqa: S311 -- draws defects, no secret
    label = f"trial {number}"
    if random.random() >= TABLE_SHARE:
        return tuple(_evaluate_row_plants(clean, draw_row_plants(clean, random), random, label))
    has_lookup = bool(copied_lake.list_lookups(clean.pipeline)) and random.random() < VERSION_SHARE
    plant = (draw_version_plant(clean, random) if has_lookup else None) or draw_table_plant(random)
    if plant.kind in {REORDERED, OTHER_VERSION}:
        return tuple(_evaluate_row_plants(clean, [plant], random, label))
    return (evaluate_table(plant, _compare(clean, [plant], random), label),)


def _evaluate_row_plants(
    clean: CleanCopy, plants: Sequence[Plant], random: Random, label: str
) -> Iterator[TrialResult]:
    """Yield the results of plants; those that a rejected comparison does not name are compared again, alone."""
    finding = _compare(clean, plants, random)
    if finding.verdict is not Verdict.NOT_COMPARABLE:
        yield evaluate_trial(clean, plants, finding, label)
        return
    named_plants, unnamed = split_by_reason(plants, finding)
    if named_plants:
        yield count_named_plants(named_plants)
    elif len(plants) == 1:
        yield count_unnamed_plant(plants[0], finding, label)
        return
    for next_plants in [unnamed] if named_plants and unnamed else [[plant] for plant in unnamed]:
        yield from _evaluate_row_plants(clean, next_plants, random, label)


def _compare(clean: CleanCopy, plants: Sequence[Plant], random: Random) -> Finding:
    """Compare a copy that contains these plants."""
    home = clean.lake.settings.home
    with TemporaryDirectory(prefix="trial-", dir=home.parent) as folder:
        link_tree(home, Path(folder))
        lake = clean.lake.with_settings(home=Path(folder))
        _plant(clean, lake, plants, random)
        return compare_at_cut(
            lake, ComparisonRequest(log=clean.log, listed_rows=ROWS_LISTED, compares_jobs=False)
        ).finding


def _plant(clean: CleanCopy, lake: PipelineLake, plants: Sequence[Plant], random: Random) -> None:
    for side in PlantSide:
        side_plants = [plant for plant in plants if plant.side is side]
        table = clean.tables[side]
        uri = str(lake.settings.home / Path(table.uri).relative_to(clean.lake.settings.home.resolve()))
        if not side_plants:
            continue
        if side_plants[0].kind == FLIPPED:
            flip_bit(uri, random.random())
        elif side_plants[0].kind == TRUNCATED:
            replace_table_rows(uri, table.rows.slice(0, 0), kind=table.kind)
        elif side_plants[0].kind == REORDERED:
            order = random.sample(range(table.rows.num_rows), table.rows.num_rows)
            replace_table_rows(uri, table.rows.take(pa.array(order, pa.int64())), kind=table.kind)
        else:
            removed_rows = [row for plant in side_plants for row in plant.removed_rows]
            replacement = pa.concat_tables(
                [plant.replacement for plant in side_plants if plant.replacement is not None]
            )
            replace_table_rows(uri, replace_rows(table.rows, removed_rows, replacement), kind=table.kind)
    for version in (plant.version for plant in plants if plant.version is not None):
        copied_lake.write_version(lake, version)

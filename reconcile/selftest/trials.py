"""A self-test from its copy to its rates, by trials.

A trial draws defects, plants them in a separate copy, compares, and counts the findings and their causes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.engine import spark
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.compare import compare_at_cut
from cutover.reconcile.request import ComparisonRequest
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.result.parts import KindRates, Rate, rate
from cutover.reconcile.selftest import copied_lake
from cutover.reconcile.selftest.copied_lake import (
    ROWS_LISTED,
    CleanCopy,
    flip_bit,
    link_tree,
    open_clean_copy,
    open_copy,
    replace_table_rows,
)
from cutover.reconcile.selftest.drawn_plants import (
    Plant,
    draw_row_plants,
    draw_table_plant,
    draw_version_plant,
    replace_rows,
)
from cutover.reconcile.selftest.outcome import SelfTest
from cutover.reconcile.selftest.plants import FLIPPED, OTHER_VERSION, REORDERED, TRUNCATED, PlantSide
from cutover.reconcile.selftest.trial_result import (
    PlantResult,
    TrialResult,
    count_named_plants,
    count_unnamed_plant,
    evaluate_table,
    evaluate_trial,
    split_by_reason,
)

FAILURES_AT_MOST = 50
Progress = Callable[[int, int], None]  # trials done, of


def self_test(
    lake: PipelineLake,
    *,
    seed: int,
    trials: int,
    clock: Clock,
    log: LogReader | None = None,
    progress: Progress = lambda count, total: None,  # noqa: ARG005 -- names for callers
) -> SelfTest:
    """Plant defects in copies of a pipeline's tables, compare, and count; the served tables are only read.

    Args:
        lake: A pipeline of which both sides are comparable.
        seed: Draws what is planted.
        trials: Comparisons.
        clock: For the time of the test and how long it took.
        log: Source of records; None: the cluster of the settings.
        progress: Called after each trial.

    Raises:
        LakeError: The sides cannot be compared as they are, or the lake cannot be copied.
    """
    pipeline = lake.pipeline
    at, began = clock.now(), clock.monotonic()
    if copied_lake.list_lookups(pipeline):  # Spark folds the results of another version; its start takes a while
        spark.start_early(lake.settings, app=f"cutover-selftest-{pipeline.name}")
    with open_copy(lake) as copied:
        clean = open_clean_copy(PipelineLake(copied, pipeline), log)
        results: list[TrialResult] = []
        for number in range(1, trials + 1):
            results += run_trial(clean, number, seed)
            progress(number, trials)
    totals = compute_trial_totals(results)
    return SelfTest(
        pipeline=pipeline.name,
        at=at.isoformat().replace("+00:00", "Z"),
        seed=seed,
        trials=trials,
        result_fingerprint=result_fingerprint(pipeline),
        epoch=clean.epoch,
        detection_rate=totals.detection_rate,
        false_alarm_rate=totals.false_alarm_rate,
        right_cause_rate=totals.right_cause_rate,
        by_kind=totals.by_kind,
        refused=totals.refused,
        not_compared=totals.not_compared,
        drawn_in=totals.drawn_in,
        failures=tuple(failure for result in results for failure in result.all_failures)[:FAILURES_AT_MOST],
        seconds=round(clock.monotonic() - began, 3),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCounts:
    """Counts of one kind of planted defect, or of all kinds."""

    planted: int = 0
    detected: int = 0
    identified: int = 0
    refused: int = 0
    not_compared: int = 0
    clean_windows: int = 0
    false_alarms: int = 0

    def plus(self, plant: PlantResult) -> "KindCounts":
        """Add one plant."""
        return replace(
            self,
            planted=self.planted + plant.planted,
            detected=self.detected + plant.detected,
            identified=self.identified + plant.identified,
            refused=self.refused + plant.refused,
            not_compared=self.not_compared + plant.not_compared,
        )

    def plus_windows(self, result: TrialResult) -> "KindCounts":
        """Add the clean windows of a comparison."""
        return replace(
            self,
            clean_windows=self.clean_windows + result.clean_windows,
            false_alarms=self.false_alarms + result.false_alarms,
        )

    @property
    def rates(self) -> KindRates:
        """Return the shares with their bounds."""
        return KindRates(
            detection_rate=rate(self.detected, self.planted),
            false_alarm_rate=rate(self.false_alarms, self.clean_windows),
            right_cause_rate=rate(self.identified, self.detected - self.refused),
            refused=self.refused,
            not_compared=self.not_compared,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of all trials."""

    detection_rate: Rate
    false_alarm_rate: Rate
    right_cause_rate: Rate
    by_kind: Mapping[str, KindRates]
    refused: int
    not_compared: int
    drawn_in: int


def compute_trial_totals(results: Sequence[TrialResult]) -> Totals:
    """Return the rates of all comparisons; a clean window counts once for each kind that was planted with it."""
    kinds: dict[str, KindCounts] = defaultdict(KindCounts)
    kind_counts = KindCounts()
    for result in results:
        kind_counts = kind_counts.plus_windows(result)
        for plant in result.plants:
            kind_counts, kinds[plant.kind] = kind_counts.plus(plant), kinds[plant.kind].plus(plant)
        for kind in {plant.kind for plant in result.plants}:
            kinds[kind] = kinds[kind].plus_windows(result)
    untouched, unchanged = sum(result.untouched for result in results), sum(result.unchanged for result in results)
    rates = kind_counts.rates
    return Totals(
        detection_rate=rates.detection_rate,
        false_alarm_rate=rates.false_alarm_rate,
        right_cause_rate=rate(
            kind_counts.identified + unchanged, kind_counts.detected - kind_counts.refused + untouched
        ),
        by_kind={kind: counts.rates for kind, counts in sorted(kinds.items())},
        refused=kind_counts.refused,
        not_compared=kind_counts.not_compared,
        drawn_in=sum(result.drawn_in for result in results),
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

"""A self-test from its copy to its rates, by trials.

A trial draws defects, plants them in a separate copy, compares, and counts the findings and their causes. A defect is
found by row, for a whole table, or by rejecting the comparison.
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
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.log_rows import LogReader
from cutover.reconcile.compare import ComparisonRequest, compare_at_cut
from cutover.reconcile.result.finding import DIMENSION, Finding, Place, Verdict, place_of
from cutover.reconcile.result.measurements import SelfTest
from cutover.reconcile.result.parts import KindRates, Rate, rate
from cutover.reconcile.selftest import copied_lake
from cutover.reconcile.selftest.copied_lake import (
    ROWS_LISTED,
    CleanCopy,
    PlantSide,
    flip_bit,
    link_tree,
    list_causes,
    open_clean_copy,
    open_copy,
    replace_table_rows,
)
from cutover.reconcile.selftest.plants import (
    FLIPPED,
    OTHER_VERSION,
    REORDERED,
    TRUNCATED,
    Plant,
    PlantedRow,
    draw_row_plants,
    draw_table_plant,
    draw_version_plant,
    find_scope,
    replace_rows,
)

ShownRow = tuple[str, frozenset[str]]
"""Kind and causes of a row in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantResult:
    """Result of one planted defect: its rows, or 1 if it affects a whole table."""

    kind: str
    planted: int  # rows that it changes in compared windows
    detected: int
    identified: int = 0  # detected with the right kind and cause
    refused: int = (
        0  # detected because the comparison was rejected with a reason that names the plant; rows have no cause then
    )
    not_compared: int = 0  # other rows that it changes, in windows that no comparison covers
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """Result of one comparison."""

    plants: tuple[PlantResult, ...]
    clean_windows: int = 0  # compared windows without a planted row
    false_alarms: int = 0  # of these
    untouched: int = 0  # earlier differences that no plant affects
    unchanged: int = 0  # of these: rows with the same cause as before
    drawn_in: int = 0  # earlier differences that are compared together with a planted row
    failures: tuple[str, ...] = ()

    @property
    def all_failures(self) -> tuple[str, ...]:
        """Return all failures, those of the plants first."""
        return (*(text for plant in self.plants for text in plant.failures), *self.failures)


def evaluate_table(plant: Plant, finding: Finding, label: str) -> TrialResult:
    """Evaluate the verdict on an edit of a whole table: it is detected unless the sides agree."""
    expected_verdicts = {FLIPPED: {Verdict.NOT_COMPARABLE}, TRUNCATED: {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}}[
        plant.kind
    ]
    is_detected = finding.verdict in {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}
    is_identified = finding.verdict in expected_verdicts
    failures = (
        () if is_identified else (f"{label}: {plant.kind} ({plant.side}): {finding.verdict}: {finding.sentence}",)
    )
    result = PlantResult(
        kind=plant.kind, planted=1, detected=int(is_detected), identified=int(is_identified), failures=failures
    )
    return TrialResult(plants=(result,))


def evaluate_trial(clean: CleanCopy, plants: Sequence[Plant], finding: Finding, label: str) -> TrialResult:
    """Count planted rows that a comparison found, earlier differences that it kept, and false alarms."""
    causes, rows_by_place = list_causes(finding), _collect_rows(finding)
    results = tuple(_evaluate_plant(plant, rows_by_place, label) for plant in plants)
    expected = {planted_row.place for plant in plants for planted_row in plant.expected}
    # An edit that leaves a result as it was may still take its cause: the log contradicts the edited rows.
    edited = {place for plant in plants for place in plant.places}
    affected_scopes = {find_scope(clean, place) for place in expected | edited}
    # A difference that late records explained loses its cause if a row compared together with it was changed.
    drawn_in = {place for place in clean.causes if find_scope(clean, place) in affected_scopes} - expected
    new_places = {place for place, names in causes.items() if _is_new(clean, place, names)}
    false_alarm_windows = sorted({start for start, _ in new_places - expected - drawn_in})
    untouched = [place for place in clean.causes if find_scope(clean, place) not in affected_scopes]
    unchanged = [place for place in untouched if causes.get(place) == clean.causes[place]]
    failures = [f"{label}: false alarm in window {start}" for start in false_alarm_windows]
    failures += [f"{label}: row {place} has another cause than before" for place in untouched if place not in unchanged]
    touched = {start for start, _ in expected | drawn_in}
    return TrialResult(
        plants=results,
        clean_windows=max(finding.windows.compared - len(touched), 0),
        false_alarms=len(false_alarm_windows),
        untouched=len(untouched),
        unchanged=len(unchanged),
        drawn_in=len(drawn_in),
        failures=tuple(failures),
    )


def split_by_reason(plants: Sequence[Plant], finding: Finding) -> tuple[list[Plant], list[Plant]]:
    """Split plants into those that a rejected comparison names as its reason, and those that it does not mention.

    The reason names a window that no batch run has computed, even if the window is not compared yet. For another
    version of a dimension the code of the breach is enough.
    """
    words = {breach.code for breach in finding.seal.breaches}
    blamed = [
        plant
        for plant in plants
        if any(start in finding.sentence for start, _ in plant.places) or (plant.version and DIMENSION in words)
    ]
    return blamed, [plant for plant in plants if plant not in blamed]


def count_named_plants(plants: Sequence[Plant]) -> TrialResult:
    """Count plants that a rejected comparison names: all of their rows are detected, none with its own cause."""
    return TrialResult(plants=tuple(_make_rejected_result(plant, len(plant.expected)) for plant in plants))


def count_unnamed_plant(plant: Plant, finding: Finding, label: str) -> TrialResult:
    """Count a single plant whose comparison was rejected without naming it: detected, but a failure."""
    return TrialResult(
        plants=(_make_rejected_result(plant, 0),), failures=(f"{label}: {finding.verdict}: {finding.sentence}",)
    )


def _make_rejected_result(plant: Plant, refused: int) -> PlantResult:
    rows = len(plant.expected)
    return PlantResult(kind=plant.kind, planted=rows, detected=rows, refused=refused, not_compared=plant.not_compared)


def _is_new(clean: CleanCopy, place: Place, names: frozenset[str]) -> bool:
    """Return whether a row did not differ before, or lost its cause."""
    return place not in clean.causes or (UNEXPLAINED in names and place not in clean.unexplained_places)


def _collect_rows(finding: Finding) -> Mapping[Place, set[ShownRow]]:
    """Collect kind and causes of the listed rows by place, which can have several; `late + future` is two causes."""
    rows_by_place: dict[Place, set[ShownRow]] = defaultdict(set)
    for cell in finding.differences:
        rows_by_place[place_of(cell)].add((cell.kind, frozenset(cell.cause.split(" + "))))
    return rows_by_place


def _evaluate_plant(plant: Plant, rows_by_place: Mapping[Place, set[ShownRow]], label: str) -> PlantResult:
    """Count the planted rows that a report lists, and those that it lists with the right kind and cause."""
    detected = [
        planted_row
        for planted_row in plant.expected
        if any({planted_row.cause, UNEXPLAINED} & causes for _, causes in rows_by_place.get(planted_row.place, ()))
    ]
    identified = [row for row in detected if _is_identified(row, rows_by_place)]
    failures = (
        f"{label}: {plant.kind} ({plant.side}): {_describe(row, rows_by_place.get(row.place, set()))}"
        for row in plant.expected
        if row not in identified
    )
    return PlantResult(
        kind=plant.kind,
        planted=len(plant.expected),
        detected=len(detected),
        identified=len(identified),
        not_compared=plant.not_compared,
        failures=tuple(failures),
    )


def _is_identified(planted_row: PlantedRow, rows_by_place: Mapping[Place, set[ShownRow]]) -> bool:
    return any(
        kind == planted_row.kind and planted_row.cause in causes
        for kind, causes in rows_by_place.get(planted_row.place, ())
    )


def _describe(planted_row: PlantedRow, report_rows: set[ShownRow]) -> str:
    texts = sorted(f"{kind}, {' + '.join(sorted(causes))}" for kind, causes in report_rows)
    window, key = planted_row.place
    expected = f"expected {planted_row.kind}, {planted_row.cause}"
    return f"window {window}, key {key}: {expected}, got {' and '.join(texts) or 'nothing'}"


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

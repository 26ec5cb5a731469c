"""Response of a comparison to planted defects: by row, for a whole table, or by rejecting the comparison."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result.finding import DIMENSION, Finding, Verdict
from cutover.reconcile.selftest.copied_lake import CleanCopy, list_causes
from cutover.reconcile.selftest.drawn_plants import Plant, PlantedRow, find_scope
from cutover.reconcile.selftest.plants import FLIPPED, TRUNCATED
from cutover.reconcile.verdict.acceptance import Place, place_of

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

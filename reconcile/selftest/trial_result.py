"""Response of a comparison to planted defects: by row, for a whole table, or by rejecting the comparison."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.comparison.sides import DIMENSION
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.reconcile.selftest.clean_copy import CleanCopy, list_causes
from cutover.reconcile.selftest.drawn_plants import Plant, reach
from cutover.reconcile.selftest.plants import FLIPPED, TRUNCATED
from cutover.reconcile.selftest.truth import PlantedRow
from cutover.reconcile.verdict.acceptance import Place, place_of

ShownRow = tuple[str, frozenset[str]]
"""Kind and causes of a row in a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantResult:
    """Result of one planted defect: its rows, or 1 if it affects a whole table."""

    kind: str
    planted: int  # rows of judged windows that it changes
    found: int
    named: int = 0  # found, and called what they are
    refused: int = 0  # found by a refusal to compare that names the plant: no row has a name then
    unjudged: int = 0  # changed besides, of which no comparison says anything
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """Result of one comparison."""

    plants: tuple[PlantResult, ...]
    clean_windows: int = 0  # compared, and nothing was planted in them
    false_alarms: int = 0  # of these
    kept: int = 0  # rows that differed before and were left alone
    kept_right: int = 0  # of these: rows with the same cause as before
    drawn_in: int = 0  # rows that differed before and are judged together with a planted one
    failures: tuple[str, ...] = ()

    @property
    def all_failures(self) -> tuple[str, ...]:
        """Return what went wrong, of the plants first."""
        return (*(text for plant in self.plants for text in plant.failures), *self.failures)


def judge_table(plant: Plant, finding: Finding, label: str) -> TrialResult:
    """Return whether an edit of a whole table led to anything but agreement, and to which verdict."""
    words = {FLIPPED: {Verdict.NOT_COMPARABLE}, TRUNCATED: {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}}[plant.kind]
    seen = finding.verdict in {Verdict.NOT_COMPARABLE, Verdict.DIVERGED}
    named = finding.verdict in words
    failed = () if named else (f"{label}: {plant.kind} ({plant.side}): {finding.verdict}: {finding.sentence}",)
    result = PlantResult(kind=plant.kind, planted=1, found=int(seen), named=int(named), failures=failed)
    return TrialResult(plants=(result,))


def judge_rows(clean: CleanCopy, plants: Sequence[Plant], finding: Finding, label: str) -> TrialResult:
    """Return what a comparison found of planted rows, and whether it found anything else."""
    causes, shown = list_causes(finding), _list_shown(finding)
    results = tuple(_judge_plant(plant, shown, label) for plant in plants)
    expected = {one.place for plant in plants for one in plant.expected}
    reached = {reach(clean, place) for place in expected}
    # A row that late ones explained has no cause any more where what is judged together with it was struck.
    drawn_in = {place for place in clean.causes if reach(clean, place) in reached} - expected
    odd = {place for place, names in causes.items() if _is_new(clean, place, names)}
    false = sorted({start for start, _ in odd - expected - drawn_in})
    left = [place for place in clean.causes if reach(clean, place) not in reached]
    right = [place for place in left if causes.get(place) == clean.causes[place]]
    failures = [f"{label}: false alarm in window {start}" for start in false]
    failures += [f"{label}: row {place} has another cause than before" for place in left if place not in right]
    touched = {start for start, _ in expected | drawn_in}
    return TrialResult(
        plants=results,
        clean_windows=max(finding.windows.compared - len(touched), 0),
        false_alarms=len(false),
        kept=len(left),
        kept_right=len(right),
        drawn_in=len(drawn_in),
        failures=tuple(failures),
    )


def split_refused(plants: Sequence[Plant], finding: Finding) -> tuple[list[Plant], list[Plant]]:
    """Return the plants of which a refusal to compare names a window, and the others: of these it says nothing.

    A window of batch that no run of batch has computed is such a reason, also one that is not judged yet. Another
    version of a dimension is named by its word.
    """
    words = {breach.code for breach in finding.seal.breaches}
    blamed = [
        plant
        for plant in plants
        if any(start in finding.sentence for start, _ in plant.places) or (plant.version and DIMENSION in words)
    ]
    return blamed, [plant for plant in plants if plant not in blamed]


def judge_blamed(plants: Sequence[Plant]) -> TrialResult:
    """Return what a refusal that names each of these plants found: all of their rows, none by a name of its own."""
    return TrialResult(plants=tuple(_make_refused(plant, len(plant.expected)) for plant in plants))


def judge_single(plant: Plant, finding: Finding, label: str) -> TrialResult:
    """Return what a refusal found that a plant alone led to and that does not name it: something, and not what."""
    return TrialResult(plants=(_make_refused(plant, 0),), failures=(f"{label}: {finding.verdict}: {finding.sentence}",))


def _make_refused(plant: Plant, refused: int) -> PlantResult:
    rows = len(plant.expected)
    return PlantResult(kind=plant.kind, planted=rows, found=rows, refused=refused, unjudged=plant.unjudged)


def _is_new(clean: CleanCopy, place: Place, names: frozenset[str]) -> bool:
    """Return whether a row did not differ before, or had a cause and has none now."""
    return place not in clean.causes or (UNEXPLAINED in names and place not in clean.known)


def _list_shown(finding: Finding) -> Mapping[Place, set[ShownRow]]:
    """Return what a report says of each place: its rows are several where one stands twice; `late + future` is two."""
    shown: dict[Place, set[ShownRow]] = defaultdict(set)
    for cell in finding.differences:
        shown[place_of(cell)].add((cell.kind, frozenset(cell.cause.split(" + "))))
    return shown


def _judge_plant(plant: Plant, shown: Mapping[Place, set[ShownRow]], label: str) -> PlantResult:
    """Return how many rows were found, and how many of these as what they are."""
    seen = [one for one in plant.expected if any({one.cause, UNEXPLAINED} & causes for _, causes in _at(shown, one))]
    named = [one for one in seen if any(kind == one.kind and one.cause in causes for kind, causes in _at(shown, one))]
    wrong = [one for one in plant.expected if one not in named]
    told = (f"{label}: {plant.kind} ({plant.side}): {_describe(one, _at(shown, one))}" for one in wrong)
    return PlantResult(
        kind=plant.kind,
        planted=len(plant.expected),
        found=len(seen),
        named=len(named),
        unjudged=plant.unjudged,
        failures=tuple(told),
    )


def _at(shown: Mapping[Place, set[ShownRow]], planted_row: PlantedRow) -> set[ShownRow]:
    return shown.get(planted_row.place, set())


def _describe(one: PlantedRow, shown: set[ShownRow]) -> str:
    got = " and ".join(sorted(f"{kind}, {' + '.join(sorted(causes))}" for kind, causes in shown)) or "nothing"
    return f"window {one.place[0]}, key {one.place[1]}: expected {one.kind}, {one.cause}, got {got}"

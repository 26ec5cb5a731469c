"""Comparison of both paths at the cut of the newest batch run, by the reconciler."""

from cutover.definition.loading import acceptance_files
from cutover.definition.loading.key_text import format_columns
from cutover.engine import queries
from cutover.reconcile.attribution import cells
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.preconditions import seal
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.acceptance import Acceptance, apply_rules, count_accepted_rows, place_of
from cutover.reconcile.verify.facts.facts import Paths, VerifyFacts
from cutover.reconcile.verify.facts.source import Source
from cutover.reconcile.verify.model import MOST, Unknown


def compare_paths(source: Source, facts: VerifyFacts) -> Paths | Unknown:
    """Compare both paths and list the differences without a cause, or return why they cannot be compared."""
    examined = seal.evaluate_seal(source.settings, facts.pipeline, epoch=None, epoch_log=source.log)
    evidence = examined.evidence
    if evidence is None:
        return Unknown(reason=examined.seal.breaches[0].message)
    with sides.open_sides(source.settings, facts.pipeline, evidence) as opened:
        try:
            attribution = attribute_causes(source.settings, facts.pipeline, evidence, opened)
        except seal.SealError as error:
            return Unknown(reason=error.breach.message)
        if attribution.unproven is not None:
            return Unknown(reason=attribution.unproven.message)
        opened, findings = attribution.sides, attribution.findings  # noqa: PLW2901 -- the same sides, with all stages
        if not findings.plain.groups:
            return Unknown(reason=f"No closed window at the cut of epoch {evidence.run.epoch} can be compared.")
        differences, accepted = _read_unexplained(source, facts, opened) if findings.unexplained else ((), 0)
        rows = queries.fetch_number(opened.connection, f"SELECT count(*) FROM {SharedTable.EXPECTED}")  # noqa: S608 -- our constant name
        texts = tuple(dict.fromkeys(map(_describe_difference, differences)))
        suffix = "further rows of both paths differ without a cause."
        more = findings.unexplained - accepted - len({(d.window_start, format_columns(d.key)) for d in differences})
        return Paths(
            epoch=evidence.run.epoch,
            windows=findings.plain.groups,
            rows=rows,
            late_rows=findings.causes["late"].rows,
            unexplained=(
                *texts,
                *([f"{more:,} {suffix}"] if more > 0 else []),
            ),
            incomplete=opened.incomplete_windows,
            accepted=accepted,
        )


def _read_unexplained(source: Source, facts: VerifyFacts, opened: sides.Sides) -> tuple[tuple[Difference, ...], int]:
    """Read the first cells without a cause that no rule accepts, and count the rows that rules accept."""
    now = history.find_rule_time(source.settings, facts.pipeline, source.request.now)
    rules = Acceptance(rules=acceptance_files.load(source.settings, facts.pipeline), now=now)
    differences, accepted = apply_rules(rules, cells.read_cells(opened, condition="_explained = 0"))
    unaccepted = [cell for cell in differences if cell.accepted_by is None]
    places = list(dict.fromkeys(place_of(cell) for cell in unaccepted))[: MOST + 1]
    return tuple(cell for cell in unaccepted if place_of(cell) in places), count_accepted_rows(accepted)


def _describe_difference(difference: Difference) -> str:
    place = f"Window {difference.window_start}, {format_columns(difference.key)}, {difference.measure}"
    values = f"expected {difference.batch} as in batch, got {difference.streaming}"
    return f"{place}: {values} and no cause for it ({difference.kind})."

"""Both paths at the cut of the newest batch run, by the reconciler's own machinery."""

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
from cutover.reconcile.verdict.acceptance import Acceptance, accept, count_rows, place_of
from cutover.reconcile.verify.facts.facts import Paths, VerifyFacts
from cutover.reconcile.verify.facts.source import Source
from cutover.reconcile.verify.model import MOST, Unknown


def paths(source: Source, facts: VerifyFacts) -> Paths | Unknown:
    """Return what the causes leave unexplained, or why the paths cannot be compared."""
    examined = seal.examine(source.settings, facts.pipeline, epoch=None, epoch_log=source.log)
    evidence = examined.evidence
    if evidence is None:
        return Unknown(why=examined.seal.breaches[0].message)
    with sides.open_sides(source.settings, facts.pipeline, evidence) as opened:
        try:
            attribution = attribute_causes(source.settings, facts.pipeline, evidence, opened)
        except seal.SealError as error:
            return Unknown(why=error.breach.message)
        if attribution.unproven is not None:
            return Unknown(why=attribution.unproven.message)
        opened, found = attribution.sides, attribution.findings  # noqa: PLW2901 -- the same, with all stages
        if not found.plain.groups:
            return Unknown(why=f"No closed window at the cut of epoch {evidence.run.epoch} can be compared.")
        listed, accepted = _read_unexplained(source, facts, opened) if found.unexplained else ((), 0)
        rows = queries.number(opened.connection, f"SELECT count(*) FROM {SharedTable.EXPECTED}")  # noqa: S608 -- a name of ours
        texts = tuple(dict.fromkeys(map(_text, listed)))
        further = "further rows of both paths differ without a cause."
        more = found.unexplained - accepted - len({(d.window_start, format_columns(d.key)) for d in listed})
        return Paths(
            epoch=evidence.run.epoch,
            windows=found.plain.groups,
            rows=rows,
            late_rows=found.causes["late"].rows,
            unexplained=(
                *texts,
                *([f"{more:,} {further}"] if more > 0 else []),
            ),
            incomplete=opened.incomplete_windows,
            accepted=accepted,
        )


def _read_unexplained(source: Source, facts: VerifyFacts, opened: sides.Sides) -> tuple[tuple[Difference, ...], int]:
    """Return the first cells that nothing explains and nobody accepts, and how many rows rules accept."""
    now = history.settle_now(source.settings, facts.pipeline, source.asked.now)
    rules = Acceptance(rules=acceptance_files.load(source.settings, facts.pipeline), now=now)
    listed, accepted = accept(rules, cells.read(opened, where="_explained = 0"))
    rest = [cell for cell in listed if cell.accepted_by is None]
    places = list(dict.fromkeys(place_of(cell) for cell in rest))[: MOST + 1]
    return tuple(cell for cell in rest if place_of(cell) in places), count_rows(accepted)


def _text(found: Difference) -> str:
    place = f"Window {found.window_start}, {format_columns(found.key)}, {found.measure}"
    return f"{place}: expected {found.batch} as in batch, got {found.streaming} and no cause for it ({found.kind})."

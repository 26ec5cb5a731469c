"""What is there at the moment of a move: both sides compared anew, every check judged, every alert looked at.

Recorded evidence says what was there when it was made. Rows may have changed behind it, records may be gone from the
log, the stream may stand.
"""

from collections.abc import Iterator

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.reconcile.gate.decide import EvidenceRun, PresentState
from cutover.reconcile.report import verdicts
from cutover.reconcile.run import reconcile
from cutover.reconcile.verify.record import verify_and_record
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
from cutover.settings import Settings


def look(settings: Settings, pipeline: Pipeline, clock: Clock) -> PresentState:
    """Compare at the newest cut, judge the checks, and look at the alerts; comparison and checks are recorded.

    Raises:
        LakeError: The history cannot be read or written. What else is wrong is part of what is returned.
    """
    found = reconcile(settings, pipeline, clock=clock)
    checked = verify_and_record(settings, pipeline, clock=clock)
    return PresentState(
        run=EvidenceRun(
            run_id=found.run.run_id,
            at=clock.now(),
            epoch=-1 if found.finding.seal.epoch is None else found.finding.seal.epoch,
            outcome=verdicts.outcome(found),
            within=found.finding.exit_code == 0 and found.run.speaks_for is None,
        ),
        reason=found.finding.sentence.partition("\n")[0],
        violations=tuple(f"{violation.check}: {violation.text}" for violation in checked.violations),
        unjudged=checked.error,
        pages=tuple(_pages(settings, pipeline, clock)),
    )


def _pages(settings: Settings, pipeline: Pipeline, clock: Clock) -> Iterator[str]:
    facts = FactCollector(settings, pipeline, clock).collect()
    for one in list_firing(facts):
        if one.severity == "page":
            yield f"{one.name}: {one.text}"

"""State at the moment of a move: a new comparison, every check, every alert.

Recorded evidence describes an earlier moment. Since then rows may have changed, the log may have lost records, and the
stream may have stopped.
"""

from collections.abc import Iterator

from cutover.clock import Clock
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.gate.decide import EvidenceRun, PresentState
from cutover.reconcile.report import verdicts
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.record import verify_and_record
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector


def examine_present(lake: PipelineLake, clock: Clock) -> PresentState:
    """Compare at the latest cut, run the checks and evaluate the alerts; record the comparison and the checks.

    Raises:
        LakeError: The history cannot be read or written. All other problems are part of the returned state.
    """
    report = run_reconciliation(lake, clock=clock)
    checks = verify_and_record(lake, clock=clock)
    return PresentState(
        run=EvidenceRun(
            run_id=report.run.run_id,
            at=clock.now(),
            epoch=-1 if report.finding.seal.epoch is None else report.finding.seal.epoch,
            outcome=verdicts.name_report_outcome(report),
            is_within_policy=report.finding.exit_code == 0 and report.run.scope_note is None,
            rows_by_cause=tuple((name, cause.rows) for name, cause in report.finding.causes.items() if cause.rows),
        ),
        reason=report.finding.sentence.partition("\n")[0],
        violations=tuple(f"{violation.check}: {violation.text}" for violation in checks.violations),
        check_error=checks.error,
        pages=tuple(_list_pages(lake, clock)),
    )


def _list_pages(lake: PipelineLake, clock: Clock) -> Iterator[str]:
    facts = FactCollector(lake, clock).collect()
    for alert in list_firing(facts):
        if alert.severity == "page":
            yield f"{alert.name}: {alert.text}"

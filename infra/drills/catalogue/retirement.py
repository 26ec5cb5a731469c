"""Alerts of a pipeline in KAPPA: an audit is overdue, or an audit finds wrong windows."""

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.infra.demo.retirement import plant_defect
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import GateEvent

OVERDUE_SCHEDULES = 30 / 86_400  # 30 seconds, as a fraction of the daily schedule


def retire_batch(stack: Stack) -> None:
    """Write the move to KAPPA without the day of evidence and the approvals that it usually requires."""
    event = GateEvent(
        pipeline=PIPELINE,
        at=SystemClock().now(),
        event="advanced",
        stage=Stage.KAPPA,
        result_fingerprint=result_fingerprint(stack.lake.pipeline),
        stream_version=stack.version.number,
        who="drill",
        why="drill",
        next_comparison=0,
    )
    Journal(stack.settings, PIPELINE, GateEvent).append(event)


def run_audit(stack: Stack) -> None:
    """Audit a sample of windows, as `flights_audit` does each day."""
    stack.require(f"cutover audit windows {PIPELINE}")


def cause_regression(stack: Stack) -> None:
    """Retire batch, corrupt rows of all final windows, and audit them."""
    retire_batch(stack)
    plant_defect(stack.lake, column="ids", share=1.0)
    stack.require(f"cutover audit windows {PIPELINE}", 1)


def replay_stream(stack: Stack) -> None:
    """Replay the log into a new version of the stream and serve it, as the runbook says; then run batch."""
    stack.stop_driver()
    stack.require(f"cutover replay {PIPELINE} --into 1")
    stack.require(f'cutover serve {PIPELINE} --version 1 --uncompared --why "the rows of version 0 are wrong"')
    stack.start_driver()
    stack.await_read()
    stack.require(f"cutover batch {PIPELINE}")


DRILLS = (
    Drill(
        name="AuditNotFresh",
        title="batch is retired, and no audit runs",
        inject=retire_batch,
        external_repair=run_audit,
        scale={"audit_schedules": OVERDUE_SCHEDULES},
        is_isolated=True,
    ),
    Drill(
        name="RetirementRegression",
        title="batch is retired, rows of final windows are corrupted, and an audit detects them",
        inject=cause_regression,
        external_repair=replay_stream,
        case="by-hand",
        is_isolated=True,
    ),
)

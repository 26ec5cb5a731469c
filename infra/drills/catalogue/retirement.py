"""Alerts of a pipeline whose batch path was retired: nobody audits it, or an audit finds wrong windows."""

from cutover.clock import SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.infra.demo.defect import plant
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.control.stages import Stage
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import GateEvent

SOON = 30 / 86_400  # of a day: 30 seconds


def retire(stack: Stack) -> None:
    """Write the move to KAPPA, which takes a day of evidence and two people's approvals elsewhere."""
    event = GateEvent(
        pipeline=PIPELINE,
        at=SystemClock().now(),
        event="advanced",
        stage=Stage.KAPPA,
        result_fingerprint=result_fingerprint(stack.pipeline),
        stream_version=stack.version.number,
        who="drill",
        why="drill",
        next_comparison=0,
    )
    Journal(stack.settings, PIPELINE, GateEvent).append(event)


def audit(stack: Stack) -> None:
    """Audit a sample, as `flights_audit` does each day."""
    stack.require(f"cutover audit windows {PIPELINE}")


def find_regression(stack: Stack) -> None:
    """Retire batch, make rows of all final windows wrong, and audit by hand."""
    retire(stack)
    plant(stack.settings, stack.pipeline, column="ids", share=1.0)
    stack.require(f"cutover audit windows {PIPELINE}", 1)


def read_anew(stack: Stack) -> None:
    """Fill a version of the stream from the log and let it serve, as the page says; batch follows it."""
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
        inject=retire,
        heal=audit,
        scale={"audit_schedules": SOON},
        fresh=True,
    ),
    Drill(
        name="RetirementRegression",
        title="batch is retired, rows of final windows become wrong, and the audit finds them",
        inject=find_regression,
        heal=read_anew,
        case="by-hand",
        fresh=True,
    ),
)

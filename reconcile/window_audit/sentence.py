"""Descriptions of an audit of windows, the same at the terminal and in the task's log."""

from collections.abc import Iterator

from cutover.lake.control.stages import Stage
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit
from cutover.reconcile.verdict.audits.power import describe_requirement
from cutover.timestamps import format_micros


def describe_audit(audit: WindowAudit) -> Iterator[str]:
    """Describe the sample, its power and its result, one line each."""
    if audit.state is AuditState.NOTHING_NEW:
        return
    span = f"after {format_micros(audit.since)}, up to {format_micros(audit.until)}"
    yield (
        f"{audit.judged:,} of {audit.population:,} windows that became final ({span}) recomputed from the log, "
        f"{audit.rows:,} rows, seed {audit.seed}."
    )
    yield f"To find {describe_requirement(audit.audit)}: the audits of these days together have {audit.power:.1%}."
    if audit.causes and audit.state is AuditState.AGREES:
        yield "Explained: " + ", ".join(f"{name} {rows:,} rows" for name, rows in sorted(audit.causes.items())) + "."
    yield audit.reason


def describe_next_step(audit: WindowAudit, *, rolled_back: bool) -> str:
    """Describe the result and the next step in one line."""
    name = audit.pipeline
    if audit.state is AuditState.AGREES:
        return f"Audit of {name}: the {count_noun(audit.judged, 'window')} of the sample agree with the log."
    if audit.state is AuditState.NOTHING_NEW:
        return f"Audit of {name}: no window became final since the last one. Next: the same once one is."
    if audit.state is AuditState.NOT_COMPARABLE:
        return f"Audit of {name}: nothing can be said. See docs/runbooks/{audit.runbook or 'NotComparable'}.md."
    text = f"Audit of {name}: {audit.unexplained:,} rows of final windows are wrong"
    if rolled_back:
        return f"{text}; {name} is back in {Stage.LAMBDA}. Next: `cutover batch {name}` catches batch up with the log."
    return f"{text}. Next: docs/runbooks/RetirementRegression.md."

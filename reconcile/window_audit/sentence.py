"""An audit of windows in words, the same for the terminal and the task's log."""

from collections.abc import Iterator

from cutover.lake.control.stages import Stage
from cutover.reconcile.result.text import count_noun
from cutover.reconcile.verdict.audits.audit_record import AuditState, WindowAudit
from cutover.reconcile.verdict.audits.power import describe
from cutover.timestamps import format_micros


def describe_audit(found: WindowAudit) -> Iterator[str]:
    """Yield the sample, what it could have found, and what it found; a line each."""
    if found.state is AuditState.NOTHING_NEW:
        return
    span = f"after {format_micros(found.since)}, up to {format_micros(found.until)}"
    yield (
        f"{found.judged:,} of {found.population:,} windows that became final ({span}) recomputed from the log, "
        f"{found.rows:,} rows, seed {found.seed}."
    )
    yield f"To find {describe(found.audit)}: the audits of these days together have {found.power:.1%}."
    if found.causes and found.state is AuditState.AGREES:
        yield "Explained: " + ", ".join(f"{name} {rows:,} rows" for name, rows in sorted(found.causes.items())) + "."
    yield found.reason


def say_next(found: WindowAudit, *, moved: bool) -> str:
    """Return what it comes to and what to do, in one line."""
    name = found.pipeline
    if found.state is AuditState.AGREES:
        return f"Audit of {name}: the {count_noun(found.judged, 'window')} of the sample agree with the log."
    if found.state is AuditState.NOTHING_NEW:
        return f"Audit of {name}: no window became final since the last one. Next: the same once one is."
    if found.state is AuditState.NOT_COMPARABLE:
        return f"Audit of {name}: nothing can be said. See docs/runbooks/{found.runbook or 'NotComparable'}.md."
    said = f"Audit of {name}: {found.unexplained:,} rows of final windows are wrong"
    if moved:
        return f"{said}; {name} is back in {Stage.LAMBDA}. Next: `cutover batch {name}` catches batch up with the log."
    return f"{said}. Next: docs/runbooks/RetirementRegression.md."

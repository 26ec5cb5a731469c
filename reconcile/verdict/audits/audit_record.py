"""Audits of windows as they are kept: one row each, with the seed, the sample and what was found."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cutover import json_text
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Audit, Pipeline
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, WindowAuditRow
from cutover.reconcile.journal_rows import list_result_rows
from cutover.reconcile.verdict import history
from cutover.settings import Settings
from cutover.timestamps import from_micros

EVERY = timedelta(days=1)
"""How often the DAG audits; the chance to find a fault within some days is reckoned with it."""


class AuditState(StrEnum):
    """What an audit found."""

    AGREES = "agrees"  # each difference has a proven cause, and the policy allows for those without
    REGRESSION = "regression"  # rows of final windows differ from their recomputation, and nothing explains it
    NOT_COMPARABLE = "not_comparable"  # no statement about the data
    NOTHING_NEW = "nothing_new"  # no window became final since the last one; this is not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAudit:
    """One audit."""

    pipeline: str
    at: str  # ISO 8601, UTC
    state: AuditState
    reason: str  # one sentence
    audit: Audit  # the policy in force
    seed: int
    since: int  # ends of windows after this one, up to `until`, were drawn from; microseconds
    until: int
    population: int  # windows that there were to draw from
    wanted: int  # to draw
    windows: tuple[int, ...]  # starts of those drawn, and of those that the audit before found wrong; microseconds
    judged: int  # of those drawn: what cannot be computed any more finds nothing
    rows: int  # (window, key) rows of the judged ones
    missed: float  # chance that this audit alone would miss the fault
    power: float  # chance that the audits of `within_days` would have found it, this one among them
    epoch: int = -1  # of the cut
    stream_version: int | None = None
    unexplained: int = 0  # (window, key) rows
    wrong: tuple[int, ...] = ()  # starts of windows with such rows, or of all if not all are listed; microseconds
    examples: tuple[str, ...] = ()  # of such rows
    causes: dict[str, int] = field(default_factory=dict)  # cause -> rows that it explains
    runbook: str | None = None
    seen: int | None = None  # sequence of the first comparison behind it, once it is recorded

    @property
    def exit_code(self) -> int:
        """Return 0: nothing is wrong, or new; 1: something is wrong; 2: nothing can be said."""
        return {AuditState.AGREES: 0, AuditState.NOTHING_NEW: 0, AuditState.REGRESSION: 1}.get(self.state, 2)


def record(settings: Settings, pipeline: Pipeline, window_audit: WindowAudit) -> int:
    """Append an audit to the history and return its sequence."""
    following = Journal(settings, pipeline.name, ComparisonRow).next_sequence()
    row = WindowAuditRow(
        pipeline=window_audit.pipeline,
        result_fingerprint=result_fingerprint(pipeline),
        stream_version=window_audit.stream_version,
        at=datetime.fromisoformat(window_audit.at),
        epoch=window_audit.epoch,
        state=window_audit.state,
        seed=window_audit.seed,
        result=json_text.write(replace(window_audit, seen=following)),
    )
    return Journal(settings, window_audit.pipeline, WindowAuditRow).append(row)


def list_audits(settings: Settings, pipeline: Pipeline) -> tuple[WindowAudit, ...]:
    """Return the audits under the definition in force, oldest first.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = list_result_rows(settings, pipeline, WindowAuditRow)
    return tuple(json_text.read(WindowAudit, row.result) for row in rows)


def list_judged(window_audits: Sequence[WindowAudit], number: int | None) -> tuple[WindowAudit, ...]:
    """Return the audits of a version of the stream that say something, oldest first."""
    mine = (window_audit for window_audit in window_audits if window_audit.stream_version == number)
    return tuple(one for one in mine if one.state is not AuditState.NOT_COMPARABLE)


def find_wrong_windows(window_audits: Sequence[WindowAudit]) -> tuple[int, ...]:
    """Find the starts of the windows that the newest audit that says something found wrong, of whichever version.

    A version that was forked from another one holds its windows, so an audit of it clears a regression only if it
    compares them again.
    """
    conclusive = [window_audit for window_audit in window_audits if window_audit.state is not AuditState.NOT_COMPARABLE]
    return conclusive[-1].wrong if conclusive else ()


def find_regression(settings: Settings, pipeline: Pipeline) -> WindowAudit | None:
    """Return the audit whose finding still stands; None: there is none.

    It stands until an audit agrees, which looks at the same windows again, or a whole comparison that was recorded
    behind it.

    Raises:
        LakeError: The history cannot be read.
    """
    known = [audit for audit in list_audits(settings, pipeline) if audit.state is not AuditState.NOT_COMPARABLE]
    if not known or known[-1].state is AuditState.AGREES:
        return None
    present, seen = history.find_present(settings, pipeline), known[-1].seen
    agrees = present is not None and present.covers_all_windows and present.exit_code == 0
    is_behind = present is not None and seen is not None and present.sequence >= seen
    return None if agrees and is_behind else known[-1]


def find_common_miss_chance(window_audits: Sequence[WindowAudit], until: int, audit: Audit) -> float:
    """Return the chance that the audits of the last days missed the fault, by what each of them looked at.

    Args:
        window_audits: Those that say something.
        until: Now, in event time; microseconds. What an audit drew from has to lie in the days before, but for one.
        audit: The policy; of audits under another one nothing is counted.
    """
    first = from_micros(until) - timedelta(days=audit.within_days)
    missed = 1.0
    for window_audit in window_audits:
        if window_audit.audit == audit and from_micros(window_audit.since) >= first - EVERY:
            missed *= window_audit.missed
    return missed

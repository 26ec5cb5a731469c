"""Recorded audits of windows: one row each, with the seed, the sample and the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cutover import json_text
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Audit
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow, WindowAuditRow
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import list_result_rows
from cutover.reconcile.verdict import history
from cutover.timestamps import from_micros

EVERY = timedelta(days=1)
"""Interval of the audit DAG, by which the probability of finding a fault within some days is computed."""


class AuditState(StrEnum):
    """Outcome of an audit."""

    AGREES = "agrees"  # each difference has a proven cause, or the policy allows it
    REGRESSION = "regression"  # rows of final windows differ from their recomputation without a cause
    NOT_COMPARABLE = "not_comparable"  # no statement about the data
    NOTHING_NEW = "nothing_new"  # no window became final since the last audit; this is not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAudit:
    """Audit of a sample of windows."""

    pipeline: str
    at: str  # ISO 8601, UTC
    state: AuditState
    reason: str  # one sentence
    audit: Audit  # the policy in force
    seed: int
    since: int  # the sample is from windows with an end after this, up to `until`; microseconds
    until: int
    population: int  # number of windows to draw from
    wanted: int  # number of windows to draw
    windows: tuple[int, ...]  # starts of the drawn ones, and of those that the previous audit found wrong; microseconds
    judged: int  # number of drawn windows that were compared; others could not be computed
    rows: int  # (window, key) rows of the compared ones
    missed: float  # probability that this audit alone misses the fault
    power: float  # probability that the audits of `within_days`, including this one, find it
    epoch: int = -1  # of the cut
    stream_version: int | None = None
    unexplained: int = 0  # (window, key) rows
    wrong: tuple[
        int, ...
    ] = ()  # starts of windows with unexplained rows, or of all windows if the list is incomplete; microseconds
    examples: tuple[str, ...] = ()  # of unexplained rows
    causes: dict[str, int] = field(default_factory=dict)  # cause -> rows that it explains
    runbook: str | None = None
    seen: int | None = None  # sequence of the first comparison after it, once it is recorded

    @property
    def exit_code(self) -> int:
        """Return 0 if the audit agrees or has nothing new, 1 for a regression, 2 if nothing was comparable."""
        return {AuditState.AGREES: 0, AuditState.NOTHING_NEW: 0, AuditState.REGRESSION: 1}.get(self.state, 2)


def record_audit(lake: PipelineLake, window_audit: WindowAudit) -> int:
    """Append an audit to the history and return its sequence."""
    following = Journal(lake.settings, lake.name, ComparisonRow).next_sequence()
    row = WindowAuditRow(
        pipeline=window_audit.pipeline,
        result_fingerprint=result_fingerprint(lake.pipeline),
        stream_version=window_audit.stream_version,
        at=datetime.fromisoformat(window_audit.at),
        epoch=window_audit.epoch,
        state=window_audit.state,
        seed=window_audit.seed,
        result=json_text.encode_dataclass(replace(window_audit, seen=following)),
    )
    return Journal(lake.settings, window_audit.pipeline, WindowAuditRow).append(row)


def list_audits(lake: PipelineLake) -> tuple[WindowAudit, ...]:
    """Return the audits under the current definition, oldest first.

    Raises:
        LakeError: The history cannot be read.
    """
    rows = list_result_rows(lake, WindowAuditRow)
    return tuple(json_text.parse_dataclass(WindowAudit, row.result) for row in rows)


def list_judged(window_audits: Sequence[WindowAudit], number: int | None) -> tuple[WindowAudit, ...]:
    """Return the conclusive audits of a version of the stream, oldest first."""
    of_version = (window_audit for window_audit in window_audits if window_audit.stream_version == number)
    return tuple(audit for audit in of_version if audit.state is not AuditState.NOT_COMPARABLE)


def find_wrong_windows(window_audits: Sequence[WindowAudit]) -> tuple[int, ...]:
    """Return the starts of the windows that the latest conclusive audit found wrong, whichever its version.

    A version that was forked from another one has its windows, so an audit of it clears a regression only if it
    compares them again.
    """
    conclusive = [window_audit for window_audit in window_audits if window_audit.state is not AuditState.NOT_COMPARABLE]
    return conclusive[-1].wrong if conclusive else ()


def find_open_regression(lake: PipelineLake) -> WindowAudit | None:
    """Find the latest audit with an open regression.

    A regression is open until an audit agrees, which compares the same windows again, or a complete comparison that was
    recorded after it.

    Raises:
        LakeError: The history cannot be read.
    """
    conclusive = [audit for audit in list_audits(lake) if audit.state is not AuditState.NOT_COMPARABLE]
    if not conclusive or conclusive[-1].state is AuditState.AGREES:
        return None
    current, first_behind = history.find_current_comparison(lake), conclusive[-1].seen
    agrees = current is not None and current.covers_all_windows and current.exit_code == 0
    is_behind = current is not None and first_behind is not None and current.sequence >= first_behind
    return None if agrees and is_behind else conclusive[-1]


def find_common_miss_chance(window_audits: Sequence[WindowAudit], closed_end: int, audit: Audit) -> float:
    """Return the probability that the audits of the last days all missed the fault.

    Args:
        window_audits: Those that say something.
        closed_end: Now, in event time; microseconds. An audit counts if its windows are within the policy's days, or
            one day earlier.
        audit: The policy; audits under another one do not count.
    """
    start = from_micros(closed_end) - timedelta(days=audit.within_days)
    missed = 1.0
    for window_audit in window_audits:
        if window_audit.audit == audit and from_micros(window_audit.since) >= start - EVERY:
            missed *= window_audit.missed
    return missed

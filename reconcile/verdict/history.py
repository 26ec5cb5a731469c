"""History of comparisons, one line per cut, fingerprint and range with a count of repeats; and of audits of windows.

A comparison with the same outcome as an existing line is recorded as a repeat of it; one with another outcome, although
its request is the same, becomes a new line. An audit of windows has one row, with its seed, its sample and its outcome.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from cutover import json_text, recorded_times
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Audit
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import Range
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import ComparisonRow, PinEvent, WindowAuditRow
from cutover.lake.tables import commits, delta
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile.journal_rows import DifferenceEvent, ProvenClaims, VerificationRow, list_result_rows
from cutover.reconcile.result.codec import encode_tree
from cutover.reconcile.result.finding import Finding, Place, compute_finding_digest
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import lifecycle, records
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.recorded_times import make_monotonic
from cutover.settings import Settings
from cutover.timestamps import from_micros, parse_duration

_GROWING: tuple[type[JournalRow], ...] = (ComparisonRow, VerificationRow, DifferenceEvent, ProvenClaims, PinEvent)
_ONLY_IN_REPORT = frozenset(
    {
        "window_series",
        "days",
        "behind",
        "epochs_series",
        "samples",
        "differences",
        "worst_keys",
        "lateness_histogram",
    }
)
RANGES_AT_MOST = 1_000
"""Maximum number of skipped ranges in a row; if there are more, the row has one range that covers all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Entry of a comparison in the history: a new line, or a repeat of an existing one."""

    pipeline: str
    turn: int  # sequence of the history at which it was computed
    lines: tuple[RecordedComparison, ...]  # other lines of the definition
    comparison: RecordedComparison  # the line that includes the comparison
    version: int | None  # of the stream that serves

    @property
    def newer(self) -> tuple[RecordedComparison, ...]:
        """Return the complete comparisons with a later position, the latest last."""
        own_position = records.compute_line_position(self.comparison, self.version)
        ordered = records.sort_by_position(self.lines, self.version)
        return tuple(
            line
            for line in ordered
            if line.covers_all_windows and records.compute_line_position(line, self.version) > own_position
        )

    @property
    def scope_note(self) -> str | None:
        """Describe the scope of a comparison that is not the pipeline's current one; None for the current one."""
        lines = [*self.lines, self.comparison] if self.comparison.counts_in_history else list(self.lines)
        current = records.find_current_line(lines, self.version)
        if current is not None and current.run_id == self.comparison.run_id:
            return None
        cut = "no cut" if self.comparison.epoch < 0 else f"the cut of epoch {self.comparison.epoch}"
        scope = cut if self.comparison.covers_all_windows else f"a range at {cut}"
        version = "" if self.comparison.version in {self.version, None} else f" of stream-{self.comparison.version}"
        current_text = f"`{self.pipeline}` has no current comparison yet"
        if current is not None:
            outcome = f"run {current.run_id} at epoch {current.epoch}: {current.verdict}"
            current_text = f"The current comparison of `{self.pipeline}` is {outcome}"
        if not self.comparison.has_cut:
            return f"Nothing was compared. {current_text}."
        return f"Covers only {scope}{version}. {current_text}."


def find_entry(
    settings: Settings,
    outcome: ComparisonOutcome,
    *,
    run_id: str,
    fingerprint: str,
    version: int | None,
    at: datetime,
) -> HistoryEntry:
    """Compute the entry that a comparison would have in the history now.

    Args:
        settings: Where the lake is.
        outcome: The comparison.
        run_id: Id of its run.
        fingerprint: Result fingerprint of the definition.
        version: Version of the stream that serves.
        at: Time of the run.
    """
    name = outcome.finding.pipeline
    journal = Journal(settings, name, ComparisonRow)
    turn, rows = journal.next_sequence(), journal.read()
    row = replace(_make_row(settings, outcome, run_id=run_id, fingerprint=fingerprint, at=at), sequence=turn)
    own_lines = [line for line in records.fold_lines(rows) if line.fingerprint == fingerprint]
    previous = max(
        (line for line in own_lines if line.key == row.comparison_key), key=lambda line: line.sequence, default=None
    )
    run_id = previous.run_id if previous is not None and previous.content == row.content_digest else run_id
    folded = records.fold_lines([*rows, replace(row, run_id=run_id)])
    return HistoryEntry(
        pipeline=name,
        turn=turn,
        lines=tuple(line for line in own_lines if line.run_id != run_id and line.counts_in_history),
        comparison=next(line for line in folded if line.run_id == run_id),
        version=version,
    )


def find_current_comparison(lake: PipelineLake) -> RecordedComparison | None:
    """Find the current comparison of a pipeline.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = read_current_lines(lake)
    return records.find_current_line(lines, version)


def list_current_first(lake: PipelineLake) -> tuple[RecordedComparison, ...]:
    """Return all lines of a pipeline: the current one, the others from the latest cut back, then other definitions.

    Raises:
        LakeError: The history cannot be read.
    """
    (own_lines, version), all_lines = (
        read_current_lines(lake),
        records.read_comparisons(lake.settings, lake.name),
    )
    current = records.find_current_line(own_lines, version)
    ordered = records.sort_by_position(own_lines, version)
    run_ids = {line.run_id for line in ordered}
    other_lines = [line for line in all_lines if line.run_id not in run_ids]
    return tuple(
        ([current] if current else []) + [line for line in reversed([*other_lines, *ordered]) if line != current]
    )


def read_current_lines(lake: PipelineLake) -> tuple[tuple[RecordedComparison, ...], int | None]:
    """Read the lines under the current definition, and the version of the stream that serves.

    Raises:
        LakeError: The history cannot be read.
    """
    serving = versions.find_current_version(lake.with_settings(stream_version=None))
    recorded_comparisons = records.of_definition(
        records.read_comparisons(lake.settings, lake.name), result_fingerprint(lake.pipeline)
    )
    return recorded_comparisons, None if serving is None else serving.number


def find_rule_time(lake: PipelineLake, now: datetime) -> datetime:
    """Return the time by which rules expire; a clock that was set back does not extend them.

    Args:
        lake: Pipeline whose records are compared with the clock.
        now: Time of this host's clock. A later time is used only if epochs, batch runs and comparisons were all
            recorded after `now`, so that a single host whose clock is ahead expires no rule.
    """
    try:
        lines = read_current_lines(lake)[0]
        runs = batch_runs.read_effective_runs(lake)
        version = versions.find_current_version(lake)
        latest_epoch = None if version is None or not delta.exists(version.uri) else EpochLog(version.uri).newest()
    except LakeError:  # the comparison reports a table that cannot be read
        return now
    run_times = make_monotonic([datetime.fromisoformat(run.finished) for run in runs])[-1:]
    comparison_times = sorted(line.settled for line in lines)[-1:]
    epoch_times = (
        [datetime.fromisoformat(latest_epoch.processing_time)]
        if latest_epoch is not None and latest_epoch.processing_time
        else []
    )
    return (
        recorded_times.estimate_now(now, [*run_times, *comparison_times, *epoch_times])
        if run_times and comparison_times and epoch_times
        else now
    )


def read_open_differences(lake: PipelineLake) -> Mapping[Place, lifecycle.OpenDifference]:
    """Return the unexplained differences that no later comparison resolved, with their states.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = read_current_lines(lake)
    opened = lifecycle.fold_open_differences(lake.settings, lake.name, lines, version)
    settles = parse_duration(lake.pipeline.policy.settles_after, of="policy.settles_after")
    return lifecycle.mark_pending(opened, records.find_current_line(lines, version), settles)


def record_comparison(
    settings: Settings, outcome: ComparisonOutcome, history_entry: HistoryEntry, report: str | None
) -> None:
    """Append the states of the run's differences, then its row, at the sequence of its entry.

    Every run gets a row, including one that could not compare.

    Args:
        settings: Where the lake is.
        outcome: The comparison.
        history_entry: Its entry in the history.
        report: Path of its report, relative to the reports folder.

    Raises:
        SequenceConflictError: Another run was recorded in the meantime; compute the entry again.
    """
    finding = outcome.finding
    # Differences of a version that does not serve have no history: such a comparison is run once.
    if finding.seal.holds and settings.stream_version is None:
        opened = lifecycle.fold_open_differences(settings, finding.pipeline, history_entry.lines, history_entry.version)
        rows = lifecycle.make_rows(finding, history_entry.comparison, opened, history_entry.newer, history_entry.lines)
        if rows:
            Journal(settings, finding.pipeline, DifferenceEvent).append(*rows)
    comparison = history_entry.comparison
    row = _make_row(
        settings,
        outcome,
        run_id=comparison.run_id,
        fingerprint=comparison.fingerprint,
        at=comparison.last_recorded,
        report=report,
    )
    Journal(settings, finding.pipeline, ComparisonRow).append(row, expected_sequence=history_entry.turn)
    for row_type in _GROWING:
        uri = control_uri(settings, row_type.TABLE)
        if delta.exists(uri) and commits.compact(uri):
            commits.clean(uri)


def _make_row(
    settings: Settings,
    outcome: ComparisonOutcome,
    *,
    run_id: str,
    fingerprint: str,
    at: datetime,
    report: str | None = None,
) -> ComparisonRow:
    """Make the row of a comparison; its epoch is None if the requested cut was not read."""
    finding = outcome.finding
    encoded_finding = finding.to_json()
    version = finding.seal.stream_version
    return ComparisonRow(
        pipeline=finding.pipeline,
        run_id=run_id,
        at=at,
        epoch=None if version is None else finding.seal.epoch,
        result_fingerprint=fingerprint,
        stream_version=settings.stream_version if version is None else version,
        verdict=finding.verdict.value,
        exit_code=finding.exit_code,
        comparison_key=_digest_request(finding, fingerprint),
        content_digest=compute_finding_digest(encoded_finding),
        skipped_windows=json.dumps(_merge_ranges(outcome.skipped_ranges)),
        result=json.dumps(_summarize(outcome, encoded_finding), sort_keys=True),
        report=report,
    )


def _summarize(outcome: ComparisonOutcome, encoded_finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary that the history keeps of a comparison: its finding without series and lists of rows."""
    summary = {name: value for name, value in encoded_finding.items() if name not in _ONLY_IN_REPORT}
    return summary | {"tables": encode_tree(outcome.tables), "settlement": encode_tree(outcome.settlement)}


def _digest_request(finding: Finding, fingerprint: str) -> str:
    """Return a digest of a comparison's request: fingerprint, version of the stream, cut, range."""
    seal = finding.seal
    logs = [[log.topic_id, dict(log.cut)] for log in seal.logs]
    request = [fingerprint, seal.stream_version, seal.epoch, logs, finding.from_, finding.to]
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _merge_ranges(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Merge ranges that overlap or touch; return at most `RANGES_AT_MOST`, ascending."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged) if len(merged) <= RANGES_AT_MOST else ((merged[0][0], merged[-1][1]),)


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
    current, first_behind = find_current_comparison(lake), conclusive[-1].seen
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

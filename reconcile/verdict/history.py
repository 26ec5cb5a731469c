"""What is remembered of comparisons: one line for each cut, fingerprint and range that was compared, repeats counted.

A comparison that finds what its line says is recorded as a repeat of that line; one that finds anything else, though
nothing was to change, is a line of its own.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover import recorded_times
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.durations import parse_duration
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.batch_runs import Range
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import ComparisonRow, PinEvent
from cutover.lake.paths import control_uri
from cutover.lake.tables import delta, upkeep
from cutover.reconcile.journal_rows import DifferenceEvent, ProvenClaims, VerificationRow
from cutover.reconcile.result.codec import encode
from cutover.reconcile.result.finding import Finding
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import lifecycle, records
from cutover.reconcile.verdict.acceptance import Place
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.recorded_times import settle_times
from cutover.settings import Settings

_GROWING: tuple[type[JournalRow], ...] = (ComparisonRow, VerificationRow, DifferenceEvent, ProvenClaims, PinEvent)
_LEFT_TO_REPORT = frozenset(
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
"""Ranges of windows that were not judged, which a row names; beyond them it names the stretch that holds them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """Where a comparison will stand in the history: as a line of its own, or as a repeat."""

    pipeline: str
    turn: int  # the history's sequence that it was decided for
    lines: tuple[RecordedComparison, ...]  # of the definition, without it
    made: RecordedComparison  # its line with it
    version: int | None  # in force

    @property
    def newer(self) -> tuple[RecordedComparison, ...]:
        """Return the whole comparisons that stand behind it, the newest last."""
        here = records.position(self.made, self.version)
        ordered = records.in_order(self.lines, self.version)
        return tuple(one for one in ordered if one.covers_all_windows and records.position(one, self.version) > here)

    @property
    def speaks_for(self) -> str | None:
        """Return what the comparison speaks for alone, as a sentence; None if it speaks for the pipeline now."""
        spoken = [*self.lines, self.made] if self.made.speaks else list(self.lines)
        found = records.find_present(spoken, self.version)
        if found is not None and found.run_id == self.made.run_id:
            return None
        cut = "no cut" if self.made.epoch < 0 else f"the cut of epoch {self.made.epoch}"
        alone = cut if self.made.covers_all_windows else f"a range at {cut}"
        other = "" if self.made.version in {self.version, None} else f" of stream-{self.made.version}"
        now = "no comparison yet" if found is None else f"run {found.run_id} at epoch {found.epoch}: {found.verdict}"
        if not self.made.has_cut:
            return f"Nothing was compared; what stands for `{self.pipeline}` now is {now}."
        return f"Speaks for {alone}{other} alone; what stands for `{self.pipeline}` now is {now}."


def find_entry(
    settings: Settings,
    outcome: ComparisonOutcome,
    *,
    run_id: str,
    fingerprint: str,
    version: int | None,
    at: datetime,
) -> HistoryEntry:
    """Return where a comparison would stand in the history as it is now.

    Args:
        settings: Where the lake lies.
        outcome: The comparison.
        run_id: Of the run that made it.
        fingerprint: Result fingerprint of the definition.
        version: Of the stream, in force.
        at: Time of the run.
    """
    name = outcome.finding.pipeline
    journal = Journal(settings, name, ComparisonRow)
    turn, rows = journal.next_sequence(), journal.read()
    row = replace(_make_row(settings, outcome, run_id=run_id, fingerprint=fingerprint, at=at), sequence=turn)
    mine = [one for one in records.lines(rows) if one.fingerprint == fingerprint]
    before = max((one for one in mine if one.key == row.comparison_key), key=lambda one: one.sequence, default=None)
    run_id = before.run_id if before is not None and before.content == row.content_digest else run_id
    placed = records.lines([*rows, replace(row, run_id=run_id)])
    return HistoryEntry(
        pipeline=name,
        turn=turn,
        lines=tuple(one for one in mine if one.run_id != run_id and one.speaks),
        made=next(one for one in placed if one.run_id == run_id),
        version=version,
    )


def find_present(settings: Settings, pipeline: Pipeline) -> RecordedComparison | None:
    """Return the comparison that speaks for a pipeline now, as the history has it at this moment.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = of_now(settings, pipeline)
    return records.find_present(lines, version)


def newest_first(settings: Settings, pipeline: Pipeline) -> tuple[RecordedComparison, ...]:
    """Return all lines of a pipeline: what speaks for it now, the others from the newest cut back, former definitions.

    Raises:
        LakeError: The history cannot be read.
    """
    (mine, version), every = of_now(settings, pipeline), records.read(settings, pipeline.name)
    newest = records.find_present(mine, version)
    ordered = records.in_order(mine, version)
    known = {one.run_id for one in ordered}
    rest = [one for one in every if one.run_id not in known]
    return tuple(([newest] if newest else []) + [one for one in reversed([*rest, *ordered]) if one != newest])


def of_now(settings: Settings, pipeline: Pipeline) -> tuple[tuple[RecordedComparison, ...], int | None]:
    """Return the lines under the definition in force, and the version of the stream that serves.

    Raises:
        LakeError: The history cannot be read.
    """
    serving = versions.current(settings.model_copy(update={"stream_version": None}), pipeline)
    recorded_comparisons = records.of_definition(records.read(settings, pipeline.name), result_fingerprint(pipeline))
    return recorded_comparisons, None if serving is None else serving.number


def settle_now(settings: Settings, pipeline: Pipeline, now: datetime) -> datetime:
    """Return the time that decides which rules have expired: a clock that was set back lets none of them live on.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        now: By this host's clock. A later time counts if epochs, batch runs and comparisons were all recorded behind
            it: one host whose clock is ahead ends no rule.
    """
    try:
        lines = of_now(settings, pipeline)[0]
        runs = batch_runs.runs(settings, pipeline)
        version = versions.current(settings, pipeline)
        newest = None if version is None or not delta.exists(version.uri) else EpochLog(version.uri).newest()
    except LakeError:  # what cannot be read is told where it is judged
        return now
    ended = settle_times([datetime.fromisoformat(run.finished) for run in runs])[-1:]
    compared = sorted(line.settled for line in lines)[-1:]
    read = [datetime.fromisoformat(newest.processing_time)] if newest is not None and newest.processing_time else []
    return recorded_times.settle_now(now, [*ended, *compared, *read]) if ended and compared and read else now


def open_differences(settings: Settings, pipeline: Pipeline) -> Mapping[Place, lifecycle.OpenDifference]:
    """Return the differences that nothing explains and that no later comparison judged away, in their states.

    Raises:
        LakeError: The history cannot be read.
    """
    lines, version = of_now(settings, pipeline)
    opened = lifecycle.open_differences(settings, pipeline.name, lines, version)
    settles = parse_duration(pipeline.policy.settles_after, of="policy.settles_after")
    return lifecycle.mark_pending(opened, records.find_present(lines, version), settles)


def record(settings: Settings, outcome: ComparisonOutcome, history_entry: HistoryEntry, report: str | None) -> None:
    """Append the states of the run's differences, then its row, in the turn that its place was decided for.

    Every run has a row, also one that could not compare.

    Args:
        settings: Where the lake lies.
        outcome: The comparison.
        history_entry: Its place in the history.
        report: Path of its report, relative to the reports folder.

    Raises:
        SequenceConflictError: Another run was recorded in the meantime; find the place again.
    """
    finding = outcome.finding
    # A comparison of a version that does not serve has no differences with a history: it is looked at once.
    if finding.seal.holds and settings.stream_version is None:
        opened = lifecycle.open_differences(settings, finding.pipeline, history_entry.lines, history_entry.version)
        rows = lifecycle.rows(finding, history_entry.made, opened, history_entry.newer, history_entry.lines)
        if rows:
            Journal(settings, finding.pipeline, DifferenceEvent).append(*rows)
    made = history_entry.made
    row = _make_row(
        settings, outcome, run_id=made.run_id, fingerprint=made.fingerprint, at=made.last_recorded, report=report
    )
    Journal(settings, finding.pipeline, ComparisonRow).append(row, expected_sequence=history_entry.turn)
    for row_type in _GROWING:
        uri = control_uri(settings, row_type.TABLE)
        if delta.exists(uri) and upkeep.compact(uri):
            upkeep.clean(uri)


def _make_row(
    settings: Settings,
    outcome: ComparisonOutcome,
    *,
    run_id: str,
    fingerprint: str,
    at: datetime,
    report: str | None = None,
) -> ComparisonRow:
    """Make the row of a comparison; its epoch is None where the requested cut was not read."""
    finding = outcome.finding
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
        content_digest=finding.digest,
        skipped_windows=json.dumps(_merge_ranges(outcome.unjudged)),
        result=json.dumps(_summarize(outcome), sort_keys=True),
        report=report,
    )


def _summarize(outcome: ComparisonOutcome) -> dict[str, Any]:
    """Return what the history keeps of a comparison: its finding without series and lists of rows."""
    summary = {name: value for name, value in outcome.finding.to_json().items() if name not in _LEFT_TO_REPORT}
    return summary | {"tables": encode(outcome.tables), "settlement": encode(outcome.settlement)}


def _digest_request(finding: Finding, fingerprint: str) -> str:
    """Return a digest of what was to be compared: fingerprint, version of the stream, cut, range."""
    seal = finding.seal
    logs = [[log.topic_id, dict(log.cut)] for log in seal.logs]
    request = [fingerprint, seal.stream_version, seal.epoch, logs, finding.from_, finding.to]
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _merge_ranges(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return ranges that do not meet, ascending, at most `RANGES_AT_MOST`."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged) if len(merged) <= RANGES_AT_MOST else ((merged[0][0], merged[-1][1]),)

"""Parts of a report that come from the history: the trend of comparisons, and the first occurrence of differences."""

from collections.abc import Mapping
from typing import Any

from cutover.definition.model.pipeline import Pipeline
from cutover.durations import parse_duration
from cutover.lake.journal import Journal
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.finding import Difference, Finding
from cutover.reconcile.result.overview import DifferenceLife, RunOfTrend
from cutover.reconcile.verdict import lifecycle, records
from cutover.reconcile.verdict.acceptance import place_of
from cutover.reconcile.verdict.history import HistoryEntry
from cutover.reconcile.verdict.lifecycle import OpenDifference
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings
from cutover.timestamps import format_micros, to_micros

RUNS_AT_MOST = 60


def trend(history_entry: HistoryEntry) -> tuple[RunOfTrend, ...]:
    """Return the latest complete comparisons by position, including that of an entry.

    Args:
        history_entry: Entry of a comparison in the history.
    """
    all_lines = [line for line in history_entry.lines if line.covers_all_windows]
    ordered = records.sort_by_position([*all_lines, history_entry.comparison], history_entry.version)[-RUNS_AT_MOST:]
    return tuple(map(_run, ordered))


def _run(recorded_comparison: RecordedComparison) -> RunOfTrend:
    def part(name: str) -> Mapping[str, Any]:
        return recorded_comparison.result.get(name) or {}

    return RunOfTrend(
        run_id=recorded_comparison.run_id,
        at=format_micros(to_micros(recorded_comparison.first_recorded)) or "",
        epoch=recorded_comparison.epoch if recorded_comparison.has_cut else None,
        verdict=recorded_comparison.verdict.value,
        within=bool(part("policy").get("within", True)),
        windows=int(part("windows").get("compared", 0)),
        different=int(part("windows").get("different", 0)),
        rows=sum(int(part("rows").get(kind, 0)) for kind in ("missing", "extra", "changed")),
        unexplained=records.count_unexplained(recorded_comparison),
        late_share=float(part("policy").get("late_share", 0)),
    )


def list_lives(
    settings: Settings, pipeline: Pipeline, finding: Finding, history_entry: HistoryEntry
) -> tuple[DifferenceLife, ...]:
    """Return the lifetimes of the listed unexplained rows; this comparison counts among the runs that found them.

    Args:
        settings: Where the lake is; a version that does not serve has no such history.
        pipeline: The definition.
        finding: The comparison.
        history_entry: Its entry in the history.

    Raises:
        LakeError: The history cannot be read.
    """
    cells = {place_of(difference): difference for difference in finding.differences if UNEXPLAINED in difference.cause}
    if not cells or not finding.seal.holds or settings.stream_version is not None:
        return ()
    opened = lifecycle.fold_open_differences(settings, pipeline.name, history_entry.lines, history_entry.version)
    rows = Journal(settings, pipeline.name, DifferenceEvent).read()
    rows += lifecycle.make_rows(finding, history_entry.comparison, opened, history_entry.newer, history_entry.lines)
    positions = {
        line.run_id: records.position(line, history_entry.version)
        for line in (*history_entry.lines, history_entry.comparison)
    }
    settles = parse_duration(pipeline.policy.settles_after, of="policy.settles_after")
    differences = lifecycle.mark_pending(lifecycle.fold_differences(rows, positions), history_entry.comparison, settles)
    return tuple(_make_life(cell, differences[place]) for place, cell in cells.items() if place in differences)


def _make_life(cell: Difference, open_difference: OpenDifference) -> DifferenceLife:
    return DifferenceLife(
        window_start=open_difference.window_start,
        key=cell.key,
        state=open_difference.state.value,
        rule=open_difference.rule,
        first_seen=format_micros(to_micros(open_difference.first_seen)) or "",
        first_run=open_difference.first_run,
        runs=open_difference.runs,
        returned=open_difference.returned,
    )

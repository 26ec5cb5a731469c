"""What the history adds to a report: how comparisons went from cut to cut, and since when its differences are known."""

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


def trend(placed: HistoryEntry) -> tuple[RunOfTrend, ...]:
    """Return the newest whole comparisons in the order in which they speak, and the placed one among them.

    Args:
        placed: Where a comparison will stand in the history.
    """
    every = [one for one in placed.lines if one.covers_all_windows]
    ordered = records.in_order([*every, placed.made], placed.version)[-RUNS_AT_MOST:]
    return tuple(map(_run, ordered))


def _run(one: RecordedComparison) -> RunOfTrend:
    def part(name: str) -> Mapping[str, Any]:
        return one.result.get(name) or {}

    return RunOfTrend(
        run_id=one.run_id,
        at=format_micros(to_micros(one.first_recorded)) or "",
        epoch=one.epoch if one.has_cut else None,
        verdict=one.verdict.value,
        within=bool(part("policy").get("within", True)),
        windows=int(part("windows").get("compared", 0)),
        different=int(part("windows").get("different", 0)),
        rows=sum(int(part("rows").get(kind, 0)) for kind in ("missing", "extra", "changed")),
        unexplained=records.count_unexplained(one),
        late_share=float(part("policy").get("late_share", 0)),
    )


def list_lives(
    settings: Settings, pipeline: Pipeline, finding: Finding, placed: HistoryEntry
) -> tuple[DifferenceLife, ...]:
    """Return since when the listed rows that nothing explains are known; this comparison is among those that saw them.

    Args:
        settings: Where the lake lies; a version beside the one that serves has no such history.
        pipeline: The definition.
        finding: The comparison.
        placed: Where it will stand in the history.

    Raises:
        LakeError: The history cannot be read.
    """
    cells = {place_of(one): one for one in finding.differences if UNEXPLAINED in one.cause}
    if not cells or not finding.seal.holds or settings.stream_version is not None:
        return ()
    opened = lifecycle.open_differences(settings, pipeline.name, placed.lines, placed.version)
    rows = Journal(settings, pipeline.name, DifferenceEvent).read()
    rows += lifecycle.rows(finding, placed.made, opened, placed.newer, placed.lines)
    positions = {one.run_id: records.position(one, placed.version) for one in (*placed.lines, placed.made)}
    settles = parse_duration(pipeline.policy.settles_after, of="policy.settles_after")
    found = lifecycle.mark_pending(lifecycle.fold_differences(rows, positions), placed.made, settles)
    return tuple(_make_life(cell, found[place]) for place, cell in cells.items() if place in found)


def _make_life(cell: Difference, one: OpenDifference) -> DifferenceLife:
    return DifferenceLife(
        window_start=one.window_start,
        key=cell.key,
        state=one.state.value,
        rule=one.rule,
        first_seen=format_micros(to_micros(one.first_seen)) or "",
        first_run=one.first_run,
        runs=one.runs,
        returned=one.returned,
    )

"""Changes between two comparisons, and the state of one window in each, from their reports. Pure.

A report lists at most 500 rows, so results state whether the lists were complete.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result.finding import Cause, Difference, WindowPoint
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict.acceptance import place_of
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.timestamps import parse_micros

Cell = tuple[str | None, tuple[tuple[str, Any], ...], str]  # window start (ISO), key, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCell:
    """Cell that differs in both runs, with another cause or amount."""

    before: Difference
    after: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """Differences of one run that another run lacks, adds or changes."""

    before: str  # run id
    after: str
    new: tuple[Difference, ...]
    gone: tuple[Difference, ...]
    other_cause: tuple[ChangedCell, ...]
    other_amount: tuple[ChangedCell, ...]  # of the same cause
    same: int  # cells
    is_whole: bool  # both reports list all their cells; otherwise a new or gone cell may only be missing from a list

    @property
    def changes(self) -> int:
        """Count the cells that changed."""
        return len(self.new) + len(self.gone) + len(self.other_cause) + len(self.other_amount)


def compare_runs(earlier_report: Report, later_report: Report) -> RunChanges:
    """Compare the cells of two comparisons by window, key and measure."""
    cells = [_by_cell(run.finding.differences) for run in (earlier_report, later_report)]
    pairs = [
        pair
        for cell in sorted({*cells[0], *cells[1]}, key=repr)
        for pair in zip_longest(cells[0].get(cell, ()), cells[1].get(cell, ()))
    ]
    common = [ChangedCell(before=old, after=new) for old, new in pairs if old is not None and new is not None]
    return RunChanges(
        before=earlier_report.run.run_id,
        after=later_report.run.run_id,
        new=tuple(new for old, new in pairs if old is None),
        gone=tuple(old for old, new in pairs if new is None),
        other_cause=tuple(cell for cell in common if cell.before.cause != cell.after.cause),
        other_amount=tuple(
            cell for cell in common if cell.before.cause == cell.after.cause and cell.before != cell.after
        ),
        same=sum(cell.before == cell.after for cell in common),
        is_whole=all(
            len(run.finding.differences) == run.finding.differences_total for run in (earlier_report, later_report)
        ),
    )


def _by_cell(differences: Iterable[Difference]) -> Mapping[Cell, Sequence[Difference]]:
    """Group differences by cell; several rows of one key are ordered by their values."""
    cells: dict[Cell, list[Difference]] = defaultdict(list)
    for difference in differences:
        cells[difference.window_start, tuple(difference.key.items()), difference.measure].append(difference)
    return {cell: sorted(rows, key=repr) for cell, rows in cells.items()}


class WindowState(StrEnum):
    """State of one window in one comparison."""

    EQUAL = "equal"
    EXPLAINED = "explained"  # it differs, and each row has a cause
    UNEXPLAINED = "unexplained"
    DIFFERS = "differs"  # in rows beyond the report's list
    UNJUDGED = "not judged"  # open, incomplete, outside the range, or the sides were not comparable
    UNKNOWN = "unknown"  # no report, or its point covers several windows of which some differ


def window_state(line: RecordedComparison, run: Report | None, start: int) -> WindowState:
    """Find the state of a window in a comparison.

    Args:
        line: The comparison's line in the history.
        run: Its report; None if it no longer exists.
        start: Start of the window, microseconds.
    """
    range_start, range_end = (line.result.get(name) for name in ("from", "to"))
    is_outside = (range_start and start < parse_micros(range_start)) or (range_end and start >= parse_micros(range_end))
    if (
        not line.is_comparable
        or is_outside
        or any(skip_start <= start < skip_end for skip_start, skip_end in line.skipped_ranges)
    ):
        return WindowState.UNJUDGED
    return WindowState.UNKNOWN if run is None else _state_in_report(run, start)


def _state_in_report(run: Report, start: int) -> WindowState:
    point = _find_point(run.finding.window_series, start)
    if point is None:
        return WindowState.UNJUDGED
    causes = [
        difference.cause
        for difference in run.finding.differences
        if difference.window_start and parse_micros(difference.window_start) == start
    ]
    if any(UNEXPLAINED in cause for cause in causes):
        return WindowState.UNEXPLAINED
    if causes:
        return WindowState.EXPLAINED if _lists_all_unexplained(run) else WindowState.DIFFERS
    if point.different_rows == 0 or len(run.finding.differences) == run.finding.differences_total:
        return WindowState.EQUAL  # if windows of its point differ, they are others
    return WindowState.DIFFERS if point.windows == 1 else WindowState.UNKNOWN


def _lists_all_unexplained(run: Report) -> bool:
    """Return whether a report lists all rows without a cause; it lists these first."""
    rows = {place_of(difference) for difference in run.finding.differences if UNEXPLAINED in difference.cause}
    return len(rows) >= run.finding.causes.get(UNEXPLAINED, Cause()).rows


def _find_point(series: Sequence[WindowPoint], start: int) -> WindowPoint | None:
    """Find the point of a chart that covers a window: the last one that starts no later."""
    earlier = [point for point in series if parse_micros(point.window_start) <= start]
    point = max(earlier, key=lambda earlier_point: parse_micros(earlier_point.window_start), default=None)
    if point is None or (point.windows == 1 and parse_micros(point.window_start) != start):
        return None
    return point

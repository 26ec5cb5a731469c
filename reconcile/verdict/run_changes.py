"""Changes between two comparisons, and the state of one window in each of them, by their reports. Pure.

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
    is_whole: bool  # both reports list all their cells; else what is new or gone may only be listed elsewhere

    @property
    def changes(self) -> int:
        """Count the cells that changed."""
        return len(self.new) + len(self.gone) + len(self.other_cause) + len(self.other_amount)


def compare_runs(before: Report, report: Report) -> RunChanges:
    """Compare the cells of two comparisons by window, key and measure."""
    cells = [_by_cell(run.finding.differences) for run in (before, report)]
    pairs = [
        pair
        for cell in sorted({*cells[0], *cells[1]}, key=repr)
        for pair in zip_longest(cells[0].get(cell, ()), cells[1].get(cell, ()))
    ]
    both = [ChangedCell(before=old, after=new) for old, new in pairs if old is not None and new is not None]
    return RunChanges(
        before=before.run.run_id,
        after=report.run.run_id,
        new=tuple(new for old, new in pairs if old is None),
        gone=tuple(old for old, new in pairs if new is None),
        other_cause=tuple(one for one in both if one.before.cause != one.after.cause),
        other_amount=tuple(one for one in both if one.before.cause == one.after.cause and one.before != one.after),
        same=sum(one.before == one.after for one in both),
        is_whole=all(len(run.finding.differences) == run.finding.differences_total for run in (before, report)),
    )


def _by_cell(differences: Iterable[Difference]) -> Mapping[Cell, Sequence[Difference]]:
    """Group differences by cell; several rows of one key are ordered by their values."""
    cells: dict[Cell, list[Difference]] = defaultdict(list)
    for difference in differences:
        cells[difference.window_start, tuple(difference.key.items()), difference.measure].append(difference)
    return {cell: sorted(several, key=repr) for cell, several in cells.items()}


class WindowState(StrEnum):
    """State of one window in one comparison."""

    EQUAL = "equal"
    EXPLAINED = "explained"  # it differs, and each row has a cause
    UNEXPLAINED = "unexplained"
    DIFFERS = "differs"  # in rows that the report has no room for
    UNJUDGED = "not judged"  # open, incomplete, out of the range, or nothing was comparable
    UNKNOWN = "unknown"  # the report is gone, or its chart stands for several windows of which some differ


def window_state(line: RecordedComparison, run: Report | None, start: int) -> WindowState:
    """Find the state of a window in a comparison.

    Args:
        line: Its line in the history.
        run: Its report; None: it is gone.
        start: Of the window, microseconds.
    """
    begin, end = (line.result.get(bound) for bound in ("from", "to"))
    outside = (begin and start < parse_micros(begin)) or (end and start >= parse_micros(end))
    if not line.is_comparable or outside or any(first <= start < last for first, last in line.unjudged):
        return WindowState.UNJUDGED
    return WindowState.UNKNOWN if run is None else _state_in_report(run, start)


def _state_in_report(run: Report, start: int) -> WindowState:
    point = _find_point(run.finding.window_series, start)
    if point is None:
        return WindowState.UNJUDGED
    causes = [d.cause for d in run.finding.differences if d.window_start and parse_micros(d.window_start) == start]
    if any(UNEXPLAINED in cause for cause in causes):
        return WindowState.UNEXPLAINED
    if causes:
        return WindowState.EXPLAINED if _lists_all_unexplained(run) else WindowState.DIFFERS
    if point.different_rows == 0 or len(run.finding.differences) == run.finding.differences_total:
        return WindowState.EQUAL  # if any differ, others of its point do
    return WindowState.DIFFERS if point.windows == 1 else WindowState.UNKNOWN


def _lists_all_unexplained(run: Report) -> bool:
    """Return whether a report has room for all rows without a cause, which it lists first."""
    rows = {place_of(difference) for difference in run.finding.differences if UNEXPLAINED in difference.cause}
    return len(rows) >= run.finding.causes.get(UNEXPLAINED, Cause()).rows


def _find_point(series: Sequence[WindowPoint], start: int) -> WindowPoint | None:
    """Find the point of a chart that covers a window: the last one that begins no later."""
    before = [point for point in series if parse_micros(point.window_start) <= start]
    point = max(before, key=lambda one: parse_micros(one.window_start), default=None)
    if point is None or (point.windows == 1 and parse_micros(point.window_start) != start):
        return None
    return point

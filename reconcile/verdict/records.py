"""Recorded comparisons in their order, by version, by cut, then by time of recording, and the changes between two.

A comparison is valid for its cut. A comparison at an older cut, however late it ends, or one over a range never clears
a difference that a newer one found; a difference stays open until a complete comparison at a newer cut, or a later one
at the same cut, explains or accepts it. The order of recording is the sequence of the history, not a clock.

Changes, and the state of one window in both comparisons, come from their reports. A report lists at most 500 rows, so
results state whether the lists were complete.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from cutover.lake.batch_runs import Range
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result.finding import Cause, Difference, Verdict, place_of
from cutover.reconcile.result.measurements import WindowPoint
from cutover.reconcile.result.report import Report
from cutover.recorded_times import make_monotonic
from cutover.settings import Settings
from cutover.timestamps import parse_micros

_CLEARED = frozenset({Verdict.CONSISTENT, Verdict.EXPLAINED, Verdict.ACCEPTED})  # the last two also beyond policy
Position = tuple[bool, int, int, int]  # is of the serving version, version, epoch of the cut, sequence

Cell = tuple[str | None, tuple[tuple[str, Any], ...], str]  # window start (ISO), key, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedComparison:
    """Line of the history: a comparison of one cut, fingerprint and range, with the number of its repeats."""

    run_id: str
    key: str  # cut, fingerprint and range, as a digest
    content: str  # digest of its outcome, without ids, times and versions of tables
    first_recorded: datetime
    last_recorded: datetime  # latest time at which it was repeated with the same outcome
    settled: datetime  # last_recorded, corrected by the order of the history; used for its age
    times: int  # number of runs with this outcome
    first_sequence: int  # sequence of its first row
    sequence: int  # sequence of its latest row
    fingerprint: str
    version: int | None  # of the stream; None if it is unknown
    epoch: int  # of its cut; without a cut, of the latest cut known then, or -1
    has_cut: bool  # its cut was read, so `epoch` is that of the cut
    covers_all_windows: bool  # all closed windows, not only a requested range
    verdict: Verdict
    exit_code: int
    result: Mapping[str, Any]  # latest recorded one, without its series
    skipped_ranges: tuple[Range, ...]  # closed windows that it skipped, microseconds
    report: str | None

    @property
    def is_comparable(self) -> bool:
        """Return whether its verdict is about the data."""
        return self.verdict is not Verdict.NOT_COMPARABLE

    @property
    def has_no_open_difference(self) -> bool:
        """Return whether there is no difference, or each has a proven cause or an acceptance rule.

        The windows need not be equal, and the differences may be beyond the policy.
        """
        return self.verdict in _CLEARED

    @property
    def counts_in_history(self) -> bool:
        """Return whether it counts in the history: not after a request for a cut or a range without any data."""
        codes = {breach.get("code") for breach in self.result.get("seal", {}).get("breaches", [])}
        has_empty_range = codes == {"nothing"} and not self.covers_all_windows
        has_unread_cut = codes == {"no_batch"} and self.result.get("seal", {}).get("epoch") is not None
        return self.is_comparable or not (has_empty_range or has_unread_cut)

    def has_judged(self, window_start: int) -> bool:
        """Return whether it was a complete comparison that included a window (microseconds).

        A window that no longer exists on either side is included: the sides agree on it.
        """
        is_skipped = any(start <= window_start < end for start, end in self.skipped_ranges)
        return self.covers_all_windows and self.is_comparable and not is_skipped


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


class WindowState(StrEnum):
    """State of one window in one comparison."""

    EQUAL = "equal"
    EXPLAINED = "explained"  # it differs, and each row has a cause
    UNEXPLAINED = "unexplained"
    DIFFERS = "differs"  # in rows beyond the report's list
    UNJUDGED = "not judged"  # open, incomplete, outside the range, or the sides were not comparable
    UNKNOWN = "unknown"  # no report, or its point covers several windows of which some differ


def read_comparisons(settings: Settings, pipeline: str) -> tuple[RecordedComparison, ...]:
    """Read the lines of a pipeline's history under all of its definitions, in the order of recording.

    Raises:
        LakeError: The history cannot be read.
    """
    return fold_lines(Journal(settings, pipeline, ComparisonRow).read())


def fold_lines(rows: Iterable[ComparisonRow]) -> tuple[RecordedComparison, ...]:
    """Fold rows of `reconciliations` into lines: rows with the same run id are repeats of one line.

    Args:
        rows: Rows, ordered by `sequence`.
    """
    lines_by_run: dict[str, RecordedComparison] = {}
    latest_epochs: dict[tuple[str, int | None], int] = {}  # latest epoch of a cut so far
    ordered = list(rows)
    for row, settled in zip(ordered, make_monotonic([row.at for row in ordered]), strict=True):
        comparison = _parse_comparison(row, settled)
        latest_epoch = max((epoch for key, epoch in latest_epochs.items() if _is_same(key, comparison)), default=-1)
        if comparison.has_cut:
            latest_epochs[comparison.fingerprint, comparison.version] = max(comparison.epoch, latest_epoch)
        else:
            comparison = replace(comparison, epoch=latest_epoch)
        previous = lines_by_run.pop(comparison.run_id, None)
        if previous is not None:
            comparison = replace(
                comparison,
                first_recorded=previous.first_recorded,
                first_sequence=previous.first_sequence,
                times=previous.times + 1,
            )
        lines_by_run[comparison.run_id] = comparison
    return tuple(lines_by_run.values())


def _is_same(key: tuple[str, int | None], recorded_comparison: RecordedComparison) -> bool:
    return key[0] == recorded_comparison.fingerprint and (
        recorded_comparison.version is None or key[1] == recorded_comparison.version
    )


def _parse_comparison(row: ComparisonRow, settled: datetime) -> RecordedComparison:
    result = json.loads(row.result)
    return RecordedComparison(
        run_id=row.run_id,
        key=row.comparison_key,
        content=row.content_digest,
        first_recorded=row.at,
        last_recorded=row.at,
        settled=settled,
        times=1,
        first_sequence=row.sequence,
        sequence=row.sequence,
        fingerprint=row.result_fingerprint,
        version=row.stream_version,
        epoch=-1 if row.epoch is None else row.epoch,
        has_cut=row.epoch is not None,
        covers_all_windows=result.get("from") is None and result.get("to") is None,
        verdict=Verdict(row.verdict),
        exit_code=row.exit_code,
        result=result,
        skipped_ranges=tuple((start, end) for start, end in json.loads(row.skipped_windows)),
        report=row.report,
    )


def of_definition(
    recorded_comparisons: Iterable[RecordedComparison], fingerprint: str
) -> tuple[RecordedComparison, ...]:
    """Return the lines under one definition that count, in the order of recording."""
    return tuple(
        recorded_comparison
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.fingerprint == fingerprint and recorded_comparison.counts_in_history
    )


def compute_line_position(recorded_comparison: RecordedComparison, version: int | None) -> Position:
    """Return the position of a line in its definition; a line without a version belongs to the serving version.

    Args:
        recorded_comparison: The line.
        version: The serving version; other versions are ordered before it, by number.
    """
    line_version = version if recorded_comparison.version is None else recorded_comparison.version
    number = -1 if line_version is None else line_version
    return line_version == version, number, recorded_comparison.epoch, recorded_comparison.sequence


def sort_by_position(
    recorded_comparisons: Iterable[RecordedComparison], version: int | None
) -> tuple[RecordedComparison, ...]:
    """Return lines of one definition by position, the latest last."""
    return tuple(
        sorted(
            recorded_comparisons, key=lambda recorded_comparison: compute_line_position(recorded_comparison, version)
        )
    )


def find_current_line(
    recorded_comparisons: Iterable[RecordedComparison], version: int | None
) -> RecordedComparison | None:
    """Find the current line of a pipeline: the latest complete one of the serving version."""
    candidates = (
        recorded_comparison
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.covers_all_windows and recorded_comparison.version in {version, None}
    )
    return max(candidates, key=lambda line: compute_line_position(line, version), default=None)


def list_standing(
    recorded_comparisons: Sequence[RecordedComparison], version: int | None
) -> tuple[RecordedComparison, ...]:
    """Return the lines with a problem that no later complete line clears, by position.

    Any complete comparison clears a NOT_COMPARABLE; only one without an open difference clears a divergence.
    """
    ordered = sort_by_position(recorded_comparisons, version)
    comparable = [
        compute_line_position(line, version) for line in ordered if line.covers_all_windows and line.is_comparable
    ]
    cleared = [
        compute_line_position(line, version)
        for line in ordered
        if line.covers_all_windows and line.has_no_open_difference
    ]
    latest_comparable, latest_cleared = max(comparable, default=None), max(cleared, default=None)

    def is_unresolved(recorded_comparison: RecordedComparison) -> bool:
        cleared_by = latest_cleared if recorded_comparison.is_comparable else latest_comparable
        return not recorded_comparison.has_no_open_difference and (
            cleared_by is None or compute_line_position(recorded_comparison, version) > cleared_by
        )

    return tuple(filter(is_unresolved, ordered))


def count_unexplained(recorded_comparison: RecordedComparison) -> int:
    """Return the number of unexplained (window, key) rows of a line."""
    return int(recorded_comparison.result.get("causes", {}).get(UNEXPLAINED, {}).get("rows", 0))


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

"""Recorded comparisons and their order: by version, by cut, then by time of recording.

A comparison is valid for its cut. A comparison at an older cut, however late it ends, or one over a range never clears
a difference that a newer one found; a difference stays open until a complete comparison at a newer cut, or a later one
at the same cut, agrees. The order of recording is the sequence of the history, not a clock.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cutover.lake.batch_runs import Range
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result.finding import Verdict
from cutover.recorded_times import make_monotonic
from cutover.settings import Settings

AGREE = frozenset({Verdict.CONSISTENT, Verdict.EXPLAINED, Verdict.ACCEPTED})
Position = tuple[bool, int, int, int]  # is of the serving version, version, epoch of the cut, sequence


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
    def agrees(self) -> bool:
        """Return whether there is no difference, or each has a proven cause or an acceptance rule."""
        return self.verdict in AGREE

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


def read_lines(settings: Settings, pipeline: str) -> tuple[RecordedComparison, ...]:
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


def position(recorded_comparison: RecordedComparison, version: int | None) -> Position:
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
    return tuple(sorted(recorded_comparisons, key=lambda recorded_comparison: position(recorded_comparison, version)))


def find_current(recorded_comparisons: Iterable[RecordedComparison], version: int | None) -> RecordedComparison | None:
    """Find the current line of a pipeline: the latest complete one of the serving version."""
    candidates = (
        recorded_comparison
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.covers_all_windows and recorded_comparison.version in {version, None}
    )
    return max(candidates, key=lambda line: position(line, version), default=None)


def list_standing(
    recorded_comparisons: Sequence[RecordedComparison], version: int | None
) -> tuple[RecordedComparison, ...]:
    """Return the lines with a problem that no later complete line clears, by position.

    Any complete comparison clears a NOT_COMPARABLE; only one that agrees clears a divergence.
    """
    ordered = sort_by_position(recorded_comparisons, version)
    comparable = [position(line, version) for line in ordered if line.covers_all_windows and line.is_comparable]
    agreeing = [position(line, version) for line in ordered if line.covers_all_windows and line.agrees]
    latest_comparable, latest_agreeing = max(comparable, default=None), max(agreeing, default=None)

    def is_unresolved(recorded_comparison: RecordedComparison) -> bool:
        cleared_by = latest_agreeing if recorded_comparison.is_comparable else latest_comparable
        return not recorded_comparison.agrees and (
            cleared_by is None or position(recorded_comparison, version) > cleared_by
        )

    return tuple(filter(is_unresolved, ordered))


def count_unexplained(recorded_comparison: RecordedComparison) -> int:
    """Return the number of unexplained (window, key) rows of a line."""
    return int(recorded_comparison.result.get("causes", {}).get(UNEXPLAINED, {}).get("rows", 0))

"""Recorded comparisons, and the order in which they speak: by version, by cut, then by when they were recorded.

A comparison speaks for its cut. So one at an older cut, however late it ends, and one over a range never make anything
good that a newer one found; what any of them found wrong stands until a whole comparison at the same or a newer cut,
recorded after it or at a newer cut, agrees. The order of recording is the history's own sequence, not a clock.
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
from cutover.recorded_times import settle_times
from cutover.settings import Settings

AGREE = frozenset({Verdict.CONSISTENT, Verdict.EXPLAINED, Verdict.ACCEPTED})
Position = tuple[bool, int, int, int]  # is of the version in force, version, epoch of the cut, sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedComparison:
    """One line of the history: a comparison of one cut, fingerprint and range, and how often it was made again."""

    run_id: str
    key: str  # cut, fingerprint and range, as a digest
    content: str  # what it found, as a digest: without ids, times and versions of tables
    first_recorded: datetime
    last_recorded: datetime  # latest time at which it was repeated with the same outcome
    settled: datetime  # the same, as far as the order of the history bears it out: for its age
    times: int  # how often it was made
    first_sequence: int  # of its first row
    sequence: int  # of its latest row
    fingerprint: str
    version: int | None  # of the stream; None: it could not be told
    epoch: int  # of its cut; where there is none, of the newest cut that was known then; -1: none was
    has_cut: bool  # epoch is that of a cut that was read
    covers_all_windows: bool  # all closed windows, not only a requested range
    verdict: Verdict
    exit_code: int
    result: Mapping[str, Any]  # as recorded last, without its series
    unjudged: tuple[Range, ...]  # closed windows that it left out, microseconds
    report: str | None

    @property
    def is_comparable(self) -> bool:
        """Return whether it says something of the data."""
        return self.verdict is not Verdict.NOT_COMPARABLE

    @property
    def agrees(self) -> bool:
        """Every difference has a proven cause, or there is none."""
        return self.verdict in AGREE

    @property
    def speaks(self) -> bool:
        """Return whether it says anything at all: not if a person asked for a cut or a range that holds nothing."""
        codes = {breach.get("code") for breach in self.result.get("seal", {}).get("breaches", [])}
        asked_for_nothing = codes == {"nothing"} and not self.covers_all_windows
        asked_in_vain = codes == {"no_batch"} and self.result.get("seal", {}).get("epoch") is not None
        return self.is_comparable or not (asked_for_nothing or asked_in_vain)

    def has_judged(self, window_start: int) -> bool:
        """Return whether it compared a window (microseconds), with all others of all keys.

        A window that neither side has any more is judged too: they agree on it.
        """
        left_out = any(start <= window_start < end for start, end in self.unjudged)
        return self.covers_all_windows and self.is_comparable and not left_out


def read(settings: Settings, pipeline: str) -> tuple[RecordedComparison, ...]:
    """Return the lines of a pipeline's history under all of its definitions, in the order of recording.

    Raises:
        LakeError: The history cannot be read.
    """
    return lines(Journal(settings, pipeline, ComparisonRow).read())


def lines(rows: Iterable[ComparisonRow]) -> tuple[RecordedComparison, ...]:
    """Return the lines that rows of `reconciliations` amount to; rows of one run id are one line, made again.

    Args:
        rows: By `sequence`.
    """
    found: dict[str, RecordedComparison] = {}
    known: dict[tuple[str, int | None], int] = {}  # newest epoch of a cut so far
    ordered = list(rows)
    for row, settled in zip(ordered, settle_times([row.at for row in ordered]), strict=True):
        comparison = _parse_comparison(row, settled)
        newest = max((epoch for key, epoch in known.items() if _is_same(key, comparison)), default=-1)
        if comparison.has_cut:
            known[comparison.fingerprint, comparison.version] = max(comparison.epoch, newest)
        else:
            comparison = replace(comparison, epoch=newest)
        before = found.pop(comparison.run_id, None)
        if before is not None:
            comparison = replace(
                comparison,
                first_recorded=before.first_recorded,
                first_sequence=before.first_sequence,
                times=before.times + 1,
            )
        found[comparison.run_id] = comparison
    return tuple(found.values())


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
        unjudged=tuple((start, end) for start, end in json.loads(row.skipped_windows)),
        report=row.report,
    )


def of_definition(
    recorded_comparisons: Iterable[RecordedComparison], fingerprint: str
) -> tuple[RecordedComparison, ...]:
    """Return the lines under one definition that say anything, in the order of recording."""
    return tuple(
        recorded_comparison
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.fingerprint == fingerprint and recorded_comparison.speaks
    )


def position(recorded_comparison: RecordedComparison, version: int | None) -> Position:
    """Return where a line stands among those of its definition; what could not name a version is of the one in force.

    Args:
        recorded_comparison: The line.
        version: In force; the others come before it, by their number.
    """
    own = version if recorded_comparison.version is None else recorded_comparison.version
    number = -1 if own is None else own
    return own == version, number, recorded_comparison.epoch, recorded_comparison.sequence


def in_order(recorded_comparisons: Iterable[RecordedComparison], version: int | None) -> tuple[RecordedComparison, ...]:
    """Return lines of one definition in the order in which they speak, the newest last."""
    return tuple(sorted(recorded_comparisons, key=lambda recorded_comparison: position(recorded_comparison, version)))


def find_present(recorded_comparisons: Iterable[RecordedComparison], version: int | None) -> RecordedComparison | None:
    """Return the line that speaks for a pipeline now: the newest whole one of the version in force; None: none does."""
    mine = (
        recorded_comparison
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.covers_all_windows and recorded_comparison.version in {version, None}
    )
    return max(mine, key=lambda one: position(one, version), default=None)


def list_standing(
    recorded_comparisons: Sequence[RecordedComparison], version: int | None
) -> tuple[RecordedComparison, ...]:
    """Return the lines whose bad word still stands, in their order: no newer whole one says otherwise.

    A whole comparison ends that there was none; only one that agrees ends a divergence.
    """
    ordered = in_order(recorded_comparisons, version)
    whole = [position(one, version) for one in ordered if one.covers_all_windows and one.is_comparable]
    agreed = [position(one, version) for one in ordered if one.covers_all_windows and one.agrees]
    last_whole, last_agreed = max(whole, default=None), max(agreed, default=None)

    def stands(recorded_comparison: RecordedComparison) -> bool:
        over = last_agreed if recorded_comparison.is_comparable else last_whole
        return not recorded_comparison.agrees and (over is None or position(recorded_comparison, version) > over)

    return tuple(filter(stands, ordered))


def count_unexplained(recorded_comparison: RecordedComparison) -> int:
    """Return the (window, key) rows of a line that nothing explains."""
    return int(recorded_comparison.result.get("causes", {}).get(UNEXPLAINED, {}).get("rows", 0))

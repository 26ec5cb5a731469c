"""A side of a comparison: one path at a cut, as a relation of rows, with what they may lack and what they leave out.

A pipeline that runs on Cutover's own paths has two: the epoch log of the stream, and the table of the batch path. The
seal has proven before that both stand at the same offsets of one log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import duckdb

from cutover.definition.model.pipeline import Pipeline, SameDefinition
from cutover.definition.windows.window_fn import Interval
from cutover.lake.batch_runs import EXPIRED, LOST, Range
from cutover.lake.control.losses import find_touched_windows
from cutover.lake.epochs.delivery import DOUBLED
from cutover.lake.tables import delta
from cutover.reconcile.comparison.shared_tables import SharedTable
from cutover.reconcile.preconditions.seal import SealEvidence
from cutover.records.classes import Class
from cutover.records.watermark import find_closed_end, is_closed_sql

STALE = "stale"  # changed since batch computed it
UNREAD = "unread"  # has records that had left the log before this version of the stream started
REASONS = (LOST, DOUBLED, EXPIRED, UNREAD, STALE)
"""Reasons for which a window is not compared; the first one that applies counts."""

MERGE_ORDER = (Class.LATE, Class.FUTURE, Class.DUPLICATE)
"""Classes of records that one side may leave out and the other count, in the order in which they are merged."""


class Side(Protocol):
    """One path at a cut of the log."""

    @property
    def excluded(self) -> frozenset[Class]:
        """Classes of records that the rows leave out."""

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of the side's rows: window, key, measures and their states."""

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Map reasons to the ranges of event time in which rows may lack records, microseconds."""

    def is_final(self, interval: Interval) -> bool:
        """Return whether the path will not change a window's rows for records that it reads later."""

    def is_final_sql(self) -> str:
        """Return SQL over `window_start` and `window_end` that is true for windows whose rows are final."""


@dataclass(frozen=True, slots=True)
class StreamSide:
    """The streaming path: its epoch log up to the cut, as the relation `stream_log`."""

    pipeline: Pipeline
    evidence: SealEvidence

    @property
    def excluded(self) -> frozenset[Class]:
        """Records that came after their window had closed, that are ahead of the clock, or that came before."""
        return frozenset(MERGE_ORDER if self.pipeline.source.record_id is not None else MERGE_ORDER[:2])

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of partial rows and ledger; `finish_sql` folds it."""
        self.evidence.epoch_log.relation(connection, SharedTable.STREAM_LOG, epoch=self.evidence.run.epoch)

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Return accepted losses, faults of delivery, and what had left the log before the stream started."""
        evidence = self.evidence
        touched = find_touched_windows(evidence.losses)
        lost_ranges = [(start, self.pipeline.window.last_end_before(end)) for start, end in touched]
        return {
            LOST: (*lost_ranges, *evidence.delivered.lost_windows),
            DOUBLED: evidence.delivered.doubled_windows,
            UNREAD: evidence.unread,
        }

    def is_final(self, interval: Interval) -> bool:
        """Return whether the watermark at the cut has closed a window."""
        closed_end = find_closed_end(self.pipeline, self.evidence.watermark)
        return closed_end is not None and interval.end <= closed_end

    def is_final_sql(self) -> str:
        """Return SQL that is true for windows that the watermark at the cut has closed."""
        return is_closed_sql(self.pipeline, self.evidence.watermark)


@dataclass(frozen=True, slots=True)
class BatchSide:
    """The batch path: its table as a run left it, as the relation `batch_table`."""

    pipeline: Pipeline
    evidence: SealEvidence

    @property
    def excluded(self) -> frozenset[Class]:
        """With the stream's definition, what it leaves out besides late records; a team's SQL leaves out nothing."""
        if isinstance(self.pipeline.batch, SameDefinition):
            return frozenset((Class.FUTURE, Class.DUPLICATE))
        return frozenset()

    def create_rows(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the relation of the table's rows."""
        delta.bind(connection, "batch_table", self.evidence.batch)

    def list_incomplete_ranges(self) -> Mapping[str, Sequence[Range]]:
        """Return what the run recorded as incomplete, and windows that changed since it computed them.

        An entry may span many windows: all those before the oldest record that the log still has.
        """
        run = self.evidence.run
        incomplete = {
            reason: [(entry.window_start, entry.window_end) for entry in run.incomplete if entry.reason == reason]
            for reason in (LOST, EXPIRED)
        }
        return {**incomplete, STALE: run.stale}

    def is_final(self, interval: Interval) -> bool:  # noqa: ARG002 -- the same for every window
        """Return True: a run computes a window from all of its records up to the cut."""
        return True

    def is_final_sql(self) -> str:
        """Regard every window as final."""
        return "true"


def list_incomplete_ranges(sides: Sequence[Side]) -> dict[str, list[Range]]:
    """Return the ranges that are not compared, by reason, in the order of `REASONS`."""
    by_side = [side.list_incomplete_ranges() for side in sides]
    return {reason: [span for ranges in by_side for span in ranges.get(reason, ())] for reason in REASONS}


def list_merged_classes(judged: Side, trusted: Side) -> Iterator[Class]:
    """Yield the classes that the judged side leaves out and the trusted side counts, in the order of `MERGE_ORDER`."""
    return (name for name in MERGE_ORDER if name in judged.excluded and name not in trusted.excluded)

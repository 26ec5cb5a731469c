"""State of a driver between epochs in addition to the watermark: windows that can fire, ids, and panes to send."""

from typing import TYPE_CHECKING

import pyarrow as pa

from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.model.triggers import Trigger
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.streaming.microbatch import dedup_state, spill
from cutover.streaming.microbatch.dedup_state import DedupState, LookupResult
from cutover.streaming.microbatch.enrichment import EpochDimensions, StreamEnrichment
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes.changelog import Changelog
from cutover.streaming.panes.operator import PaneOperator, TimeProgress
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer
from cutover.timestamps import to_micros

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HeldState:
    """Restored from the epoch log at a start; `make_rows` writes what changes with an epoch, `note_commit` follows."""

    def __init__(self, context: DriverContext, committer: Committer) -> None:
        pipeline = context.pipeline
        self._context, self._committer = context, committer
        self._nothing = epoch_log_schema(pipeline).empty_table()
        self._lookups = StreamEnrichment(context.lake, context.clock)
        self._panes = None if pipeline.trigger is None else self._restore_panes(pipeline.trigger)
        self.ids = None if pipeline.source.record_id is None else self._restore_ids()

        # A version that does not serve yet says nothing: once it does, its driver sends what the topic lacks.
        silent = pipeline.changelog is None or committer.version.beside
        self._changelog = None if silent else self._restore_changelog()

    @property
    def due(self) -> int | None:
        """Return when a period of a trigger ends next, microseconds of the machine's clock; None: none runs."""
        return None if self._panes is None else self._panes.due

    @property
    def is_pane_due(self) -> bool:
        """Return whether a period of a trigger has ended by the machine's clock."""
        due = self.due
        return due is not None and due <= to_micros(self._context.clock.now())

    def read_dimensions(self, spark: "SparkSession") -> EpochDimensions:
        """Return what the lookups of an epoch take their columns from."""
        return self._lookups.read_dimensions(spark)

    def make_pane_rows(self, epoch_partials: spill.EpochPartials, record: EpochRecord) -> pa.Table:
        """End an epoch for its panes. This cannot be undone: the windows have advanced.

        Returns:
            Rows of the epoch log: emitted panes, and held windows.
        """
        if self._panes is None:
            return self._nothing
        newest, policy = self._committer.newest, self._context.time_policy
        progress = TimeProgress(
            now=to_micros(self._context.clock.now()),
            watermark_before=None if newest is None else newest.watermark_after,
            watermark_after=record.watermark_after,
            settles=policy.settles,
            epoch_ends=policy.epoch_ends,
        )
        accepted = spill.read_accepted(epoch_partials, self._context.pipeline, self._committer.version.uri)
        return pane_rows.to_rows(self._panes.end_epoch(accepted, progress), self._context.pipeline, record.epoch)

    def make_id_rows(self, lookup_result: LookupResult | None, epoch: int) -> pa.Table:
        """Return the rows of the epoch log with the ids that an epoch is the first to show."""
        return (
            self._nothing
            if lookup_result is None
            else dedup_state.make_id_rows(lookup_result.new, self._context.pipeline, epoch)
        )

    def note_commit(self, record: EpochRecord, lookup_result: LookupResult | None, panes: pa.Table) -> None:
        """Remember the ids of an epoch that is committed, and send its panes."""
        if self.ids is not None and lookup_result is not None:
            self.ids.remember(lookup_result.new, record.watermark_after)
        if self._changelog is not None:
            self._changelog.add(panes)
        self.send()

    def send(self) -> None:
        """Send the panes that the changelog lacks; without a changelog there is nothing to do."""
        if self._changelog is not None:
            self._changelog.send()

    def _restore_panes(self, trigger: Trigger) -> PaneOperator:
        """Return the windows that can still fire."""
        pipeline, newest = self._context.pipeline, self._committer.newest
        panes = PaneOperator(pipeline, trigger, forgets=self._context.time_policy.closes)
        if newest is not None:
            is_same = newest.panes == panes_fingerprint(pipeline)
            watermark = newest.watermark_after
            panes.restore(
                pane_rows.restore_windows(
                    self._committer.table, pipeline, trigger, watermark=watermark, is_same=is_same
                )
            )
        return panes

    def _restore_ids(self) -> DedupState:
        """Return what is remembered of the records that the epoch log has counted."""
        dedup_state, newest = DedupState(self._context.lake), self._committer.newest
        dedup_state.begin(self._committer.table, None if newest is None else newest.watermark_after)
        return dedup_state

    def _restore_changelog(self) -> Changelog:
        """Restore the state from the epoch log; start empty before the first epoch."""
        context, version = self._context, self._committer.version
        changelog = Changelog(context.lake, context.client, stream=version.app_id)
        changelog.begin(None if self._committer.newest is None else EpochLog(version.uri))
        return changelog

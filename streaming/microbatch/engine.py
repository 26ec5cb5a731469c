"""A micro-batch from top to bottom: plan, read, judge and aggregate, record, commit; and the ticks between them.

In addition to the watermark, a driver holds state between epochs (`HeldState`): windows that can fire, ids, and panes
to send.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.model.triggers import Trigger
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.epochs.delivery import compute_next_epoch, count_unread
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables.schemas import epoch_log_schema, partial_schema
from cutover.records.enrich import Dimensions
from cutover.records.parsing.writer_schemas import run_with_schemas
from cutover.records.watermark import Observation, WatermarkState
from cutover.streaming.compaction.compactor import Compactor
from cutover.streaming.microbatch import aggregate, dedup_state, epoch_record
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.microbatch.dedup_state import DedupState, LookupResult
from cutover.streaming.microbatch.epoch_record import (
    EpochDimensions,
    EpochRead,
    EpochRecorder,
    StreamEnrichment,
    is_behind,
)
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes.operator import PaneOperator, TimeProgress
from cutover.streaming.panes.rows import Changelog
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import query, start_offsets
from cutover.timestamps import format_micros, to_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        silent = pipeline.changelog is None or committer.version.parallel
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

    def make_pane_rows(self, epoch_partials: aggregate.EpochPartials, record: EpochRecord) -> pa.Table:
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
        accepted = aggregate.read_accepted(epoch_partials, self._context.pipeline, self._committer.version.uri)
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


class MicrobatchEngine:
    """One driver's micro-batches and what they leave behind.

    `process_batch` runs on Spark's foreachBatch thread, `poll` on the main thread; `lock` serialises them.
    """

    def __init__(self, context: DriverContext, committer: Committer, beginning: start_offsets.StartOffsets) -> None:
        self.context, self.committer, self.log = context, committer, beginning.log
        self.position = dict(beginning.offsets)
        self.limit: Mapping[int, int] | None = None  # a drain reads no further
        self.lock, self.wake = threading.Lock(), threading.Event()
        self.checkpoint = query.checkpoint_of(context.place, committer.run_id)
        self.failure: BaseException | None = None
        self.compactor = Compactor(context, committer)
        self.continuity = Continuity(context, committer, beginning.log)
        self.health = self.continuity.health
        self.recorder = EpochRecorder(context, committer, beginning.log, self.continuity, self.compactor)
        newest = beginning.record
        self.time = WatermarkState() if newest is None else restore_time(newest)
        self.state = HeldState(context, committer)

    @property
    def lag(self) -> int:
        """Return the records unread at the last look (control records included)."""
        return count_unread(self.continuity.high, self.position)

    @property
    def drained(self) -> bool:
        """Return whether a drain's cut is reached."""
        return self.limit is not None and all(self.position.get(p, 0) >= end for p, end in self.limit.items())

    def process_batch(self, batch: "DataFrame", number: int) -> None:
        """Take one micro-batch; what fails is kept, since Spark would show it as a JVM's stack."""
        began = time.monotonic()
        try:
            with self.lock:
                span = 0 if self.context.stopping.is_set() or self.drained else self._process_epoch(batch, number)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.wake.set()
        if not is_behind(span, self.context.pipeline.max_rows_per_epoch) and not self.drained:
            self.context.stopping.wait(
                max(0.0, self.context.lake.settings.stream.trigger_seconds - (time.monotonic() - began))
            )

    def _process_epoch(self, batch: "DataFrame", number: int) -> int:
        """Plan, read, judge and aggregate, record, commit; return how many offsets that were."""
        plan = self._plan(number)
        if plan.start == plan.end:
            return 0
        began = time.monotonic()
        self.context.probe("epoch.planned", plan.epoch)
        read = self._read(batch, plan)
        if read is None:
            return 0
        time_now = self._advance(aggregate.newest_events(read.aggregation), plan.end)
        seconds = round(time.monotonic() - began, 3)
        name = query.query_name(self.context.pipeline, self.checkpoint)
        record = replace(self.recorder.record_batch(plan, read, time_now, batch, name), seconds=seconds)
        self._commit(read.partials, record, read.aggregation.lookup)
        self.time = time_now
        return plan.span

    def _plan(self, number: int) -> EpochPlan:
        """Return from where to where an epoch reads, by what Spark noted of its batch."""
        noted = query.end_offsets(self.checkpoint, number, self.log.topic)
        if number:
            self._reject_other_start(query.end_offsets(self.checkpoint, number - 1, self.log.topic))
        limit = self.limit
        end = noted if limit is None else {p: min(offset, limit.get(p, 0)) for p, offset in noted.items()}
        newest = self.committer.newest
        return EpochPlan(
            epoch=compute_next_epoch(newest),
            start=dict.fromkeys(end, 0) | self.position,
            end=end,
            clipped=end != noted,
            watermark=newest.watermark_after if newest is not None and self.context.time_policy.closes else None,
        )

    def _reject_other_start(self, begins: Mapping[int, int]) -> None:
        """Check that a micro-batch begins where the newest epoch ended; otherwise its record would be wrong.

        Raises:
            LakeError: It begins elsewhere.
        """
        ours = {partition: offset for partition, offset in self.position.items() if offset}
        if ours != {partition: offset for partition, offset in begins.items() if offset}:
            msg = f"Stream of {self.context.pipeline.name}: expected a micro-batch that begins at {ours}, Spark noted "
            msg += f"{dict(begins)}.\nHint: nothing was written; start the driver again."
            raise LakeError(msg)

    def _read(self, batch: "DataFrame", plan: EpochPlan) -> EpochRead | None:
        """Run the pass and mark its end; repeat it if the log changed its leader meanwhile.

        Returns:
            None: a stop was requested.
        """
        context, dimensions = self.context, self.state.read_dimensions(batch.sparkSession)
        while True:
            proof, marks = self.continuity.proof, self.continuity.mark(plan)
            aggregation, epoch_partials = run_with_schemas(lambda: self._aggregate(batch, plan, dimensions.frames))
            context.probe("epoch.aggregated", plan.epoch)
            records = aggregate.set_record_count(aggregation, epoch_partials.counts, context.pipeline)
            self.continuity.check_complete(batch.sparkSession, plan, records.records)
            if not self.continuity.await_same_log():
                return None
            if self.continuity.is_from_one_log(proof, plan, marks.result()):
                epoch_partials = replace(epoch_partials, counts=records)
                return EpochRead(
                    aggregation=aggregation, partials=epoch_partials, marks=marks.result(), dimensions=dimensions
                )
            log.info("epoch_read_again", pipeline=context.pipeline.name, epoch=plan.epoch)

    def _aggregate(
        self, batch: "DataFrame", plan: EpochPlan, dimensions: Dimensions
    ) -> tuple[aggregate.AggregationPass, aggregate.EpochPartials]:
        aggregation = aggregate.one_pass(batch, self.context.pipeline, plan, dimensions, self.state.ids)
        try:
            return aggregation, aggregate.run_aggregation(
                aggregation, self.context.lake, plan, uri=self.committer.version.uri
            )
        finally:
            aggregation.release()

    def _commit(
        self, epoch_partials: aggregate.EpochPartials, record: EpochRecord, lookup_result: LookupResult | None = None
    ) -> None:
        """Commit an epoch's rows with its record, then let everything follow that goes by what is committed."""
        rows = epoch_record.table_rows(epoch_partials.rows, record.epoch, epoch_log_schema(self.context.pipeline))
        ids = self.state.make_id_rows(lookup_result, record.epoch)
        # Nothing between here and the commit may fail and be tried again: the windows have moved on.
        panes = self.state.make_pane_rows(epoch_partials, record)
        began = time.monotonic()
        epoch_record.deliver(
            self.committer, pa.concat_tables([rows, ids, panes]), epoch_partials, record, self.context.probe
        )
        seconds, written_bytes = time.monotonic() - began, self.committer.written_bytes
        self.context.metrics.note_epoch(record, commit_seconds=seconds, written_bytes=written_bytes)
        self._note_commit(record)
        self.state.note_commit(record, lookup_result, panes)
        self.compactor.step()

    def _note_commit(self, record: EpochRecord) -> None:
        grown = sorted(set(record.end) - set(self.position))
        self.position = dict(record.end)
        self.context.probe("epoch.committed", record.epoch)
        self.context.beat.update(epoch=record.epoch, watermark=format_micros(record.watermark_after), lag=record.lag)
        self.health.note_commit()
        if grown:
            log.info("partitions_changed", pipeline=self.context.pipeline.name, new=grown)
        log.info(
            "epoch_committed",
            pipeline=self.context.pipeline.name,
            epoch=record.epoch,
            records=record.records,
            **{kind: pairs for kind, pairs in record.counts.items() if pairs},
            watermark=format_micros(record.watermark_after),
            lag=record.lag,
            seconds=record.seconds,
            tick=record.tick,
        )

    def poll(self) -> None:
        """Read the log's ends and commit a tick if time advanced while no records arrived.

        Raises:
            CutoverError: The tick cannot be committed.
        """
        ends = self.continuity.read_ends(dict(self.position))
        with self.lock:
            stopping = self.context.stopping.is_set()
            self.continuity.note_ends(ends, prove=not stopping)
            if not stopping:
                self._tick_if_due()
                self.compactor.step()
                self.state.send()

    def finish(self, *, final: bool) -> None:
        """Commit the end of a drain: its cut if no epoch has it, and the end of time if it is final."""
        with self.lock:
            newest = self.committer.newest
            if final or newest is None or newest.end != self.position:
                self.tick(self.time, final=final)

    def tick(self, time_now: WatermarkState, *, final: bool = False) -> None:
        """Commit an epoch without data. The caller holds the lock."""
        newest = self.committer.newest
        plan = EpochPlan(
            epoch=compute_next_epoch(newest),
            start=self.position,
            end=self.position,
            clipped=False,
            watermark=newest.watermark_after if newest is not None and self.context.time_policy.closes else None,
        )
        record = self.recorder.record_tick(plan, time_now, final=final)
        if not self.continuity.await_same_log():
            return
        empty = partial_schema(self.context.pipeline).empty_table()
        self._commit(aggregate.EpochPartials(rows=empty, counts=aggregate.NOTHING, number=0), record)

    def _tick_if_due(self) -> None:
        """Commit an epoch without data if time moved on, a partition fell idle, or a period of a trigger ended."""
        newest = self.committer.newest
        if newest is None:
            return
        state = self._advance({}, self.position)
        if state.watermark != newest.watermark_after or state.idle - set(newest.idle) or self.state.is_pane_due:
            self.tick(state)
        self.time = state

    def _advance(self, observed: Mapping[int, int], end: Mapping[int, int]) -> WatermarkState:
        """Return the watermark state once everything before `end` is read."""
        high_watermarks = self.continuity.high
        high = {p: max(high_watermarks.get(p, 0), end.get(p, 0)) for p in {*high_watermarks, *end}}
        observation = Observation(now=self.context.clock.monotonic(), read=end, high=high, max_event=observed)
        return self.context.time_policy.advance(self.time, observation, self.context.pipeline.lateness)


def restore_time(record: EpochRecord) -> WatermarkState:
    """Return the watermark state at a start, with idleness reset."""
    return WatermarkState(watermark=record.watermark_after, max_event=dict(record.max_event))

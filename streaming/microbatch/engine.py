"""The stream's state between epochs, and the epoch itself: plan, one pass, one commit, under one lock."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.model.triggers import Trigger
from cutover.errors import LakeError, LogError
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables.schemas import epoch_log_schema, partial_schema
from cutover.log.cut import LogEnd
from cutover.log.mark import Marks
from cutover.records.watermark import Observation, WatermarkState, final_watermark
from cutover.streaming.compaction.compactor import Compactor
from cutover.streaming.microbatch import aggregate, dedup_state, delivery, spill, table_rows
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.microbatch.dedup_state import DedupState, LookupResult
from cutover.streaming.microbatch.enrichment import EpochDimensions, StreamEnrichment
from cutover.streaming.microbatch.settings_in_force import DriverSettingsRecorder
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes.changelog import Changelog
from cutover.streaming.panes.operator import PaneOperator, TimeProgress
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.health import Health, LogSnapshot
from cutover.streaming.sink.committer import Committer
from cutover.streaming.source import query, start_offsets
from cutover.timestamps import format_micros, to_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Read = tuple[aggregate.AggregationPass, spill.EpochPartials, Marks]


class MicrobatchEngine:
    """One driver's micro-batches and what they leave behind.

    `process_batch` runs on Spark's foreachBatch thread, `poll` on the main thread; `lock` serialises them.
    """

    def __init__(self, context: DriverContext, committer: Committer, beginning: start_offsets.StartOffsets) -> None:
        self.context, self.committer, self.log = context, committer, beginning.log
        self.position = dict(beginning.offsets)
        self.limit: Mapping[int, int] | None = None  # a drain reads no further
        self.high: Mapping[int, int] = {}  # high watermarks at the last look
        self.lock, self.wake = threading.Lock(), threading.Event()
        self.checkpoint = query.checkpoint_of(context.place, committer.run_id)
        self.failure: BaseException | None = None
        self._schema = epoch_log_schema(context.pipeline)
        self.compactor = Compactor(context, committer)
        self.health = Health(context.beat, context.clock)
        self.continuity = Continuity(context, committer, beginning.log.topic)
        self._session: SparkSession | None = None  # that the query was started in
        self._judging = DriverSettingsRecorder(context.pipeline)
        self.lookups = StreamEnrichment(context.settings, context.pipeline, context.clock)
        self._looked: Mapping[int, int] = {}  # high watermarks at the last look of the main thread
        newest = beginning.record
        self.time = WatermarkState() if newest is None else restore_time(newest)
        self.panes = None if context.pipeline.trigger is None else self._load_panes(context.pipeline.trigger)
        self.ids = None if context.pipeline.source.record_id is None else self._load_ids()

        # A version that does not serve yet says nothing: once it does, its driver sends what the topic lacks.
        silent = context.pipeline.changelog is None or committer.version.beside
        self.changelog = None if silent else self._load_changelog()

    @property
    def lag(self) -> int:
        """Return the records unread at the last look (control records included)."""
        return sum(max(0, end - self.position.get(partition, 0)) for partition, end in self.high.items())

    @property
    def drained(self) -> bool:
        """Return whether a drain's cut is reached."""
        return self.limit is not None and all(self.position.get(p, 0) >= end for p, end in self.limit.items())

    def begin_query(self, session: "SparkSession") -> None:
        """Take note that another query is about to start in a session: its clients are made anew."""
        self._session, self._judging = session, DriverSettingsRecorder(self.context.pipeline)

    def process_batch(self, batch: "DataFrame", number: int) -> None:
        """Take one micro-batch; what fails is kept, since Spark would show it as a JVM's stack."""
        began = time.monotonic()
        try:
            with self.lock:
                span = 0 if self.context.stopping.is_set() or self.drained else self._epoch(batch, number)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.wake.set()
        behind = 2 * span >= self.context.pipeline.max_rows_per_epoch  # Spark rounds the cap down for each partition
        if not behind and not self.drained:
            self.context.stopping.wait(
                max(0.0, self.context.settings.stream.trigger_seconds - (time.monotonic() - began))
            )

    def poll(self) -> None:
        """Look at the log's ends and commit a tick if time moved on while nothing arrived.

        Raises:
            CutoverError: The tick cannot be committed.
        """
        ends = self._ends()
        high = {p: end.offset for p, end in ends.items()}
        with self.lock:
            # An epoch that was committed while we waited may have looked at the log later than we did.
            self.high = {p: max(end, self.high.get(p, 0)) for p, end in high.items()}
            if not self.context.stopping.is_set():
                if self.continuity.is_due(ends):
                    self.continuity.prove(self.context.client.log_ends(self.log.topic))
                self._tick_if_due()
                self.compactor.step()
                if self.changelog is not None:
                    self.changelog.send()

    def _ends(self) -> Mapping[int, LogEnd]:
        """Return the log's ends, and tell the heartbeat what they say beside the rest of the log."""
        client, topic, read = self.context.client, self.log.topic, dict(self.position)
        ends = client.log_ends(topic)
        high = {p: end.offset for p, end in ends.items()}
        behind = any(end > read.get(p, 0) for p, end in high.items())
        stable = client.latest(topic, self.context.pipeline.source.isolation) if behind else {}
        live = [p for p, end in high.items() if end > self._looked.get(p, end)]
        self._looked = high
        newest = {p: at for p, at in client.newest_times(topic).items() if p in live} if live else {}
        self.health.note_look(LogSnapshot(read=read, high=high, stable=stable, newest=newest))
        return ends

    def finish(self, *, final: bool) -> None:
        """Commit what a drain changed: a cut of its own if no epoch has it, the end of time if it is the final one."""
        with self.lock:
            newest = self.committer.newest
            if final or newest is None or newest.end != self.position:
                self.tick(self.time, final=final)

    def _epoch(self, batch: "DataFrame", number: int) -> int:
        plan = self._plan(number)
        if plan.start == plan.end:
            return 0
        began = time.monotonic()
        self.context.probe("epoch.planned", plan.epoch)
        taken = self.lookups.take_dimensions(batch.sparkSession)
        read = self._read(batch, plan, taken)
        if read is None:
            return 0
        passed, gathered, marks = read
        time_now = self._advance(aggregate.newest_events(passed), plan.end)
        record = self._record(plan, gathered.counted, time_now)
        record = replace(
            record,
            seconds=round(time.monotonic() - began, 3),
            one_key_share=aggregate.one_key_share(gathered.rows, self.context.pipeline),
            rows=gathered.number,
            marks={**record.marks, **marks},
            dimensions=taken.versions,
            dimension_ids=taken.ids,
            windows=delivery.windows_of(gathered, self.committer.version.uri, record.delivery),
        )
        record = self._judging.add_settings(
            record, batch, self._session, query.query_name(self.context.pipeline, self.checkpoint)
        )
        if passed.looked is not None:
            record = replace(record, id_conflicts=passed.looked.conflicts)
        self._commit(gathered, record, passed.looked)
        self.time = time_now
        return plan.span

    def _read(self, batch: "DataFrame", plan: aggregate.EpochPlan, taken: EpochDimensions) -> _Read | None:
        """Make the pass, and mark where it ends; again where the log changed its leader meanwhile.

        Returns:
            None: the driver was asked to stop.
        """
        while True:
            since, marks = self.continuity.proof, self.continuity.mark(plan)
            passed = aggregate.one_pass(batch, self.context.pipeline, plan, taken.frames, self.ids)
            uri = self.committer.version.uri
            gathered = spill.gather(passed, self.context.pipeline, plan, self.context.settings, uri=uri)
            passed.release()
            self.context.probe("epoch.aggregated", plan.epoch)
            if not self._same_log():
                return None
            if self.continuity.is_from_one_log(since, plan, marks.result()):
                return passed, gathered, marks.result()
            log.info("epoch_read_again", pipeline=self.context.pipeline.name, epoch=plan.epoch)

    def _commit(self, gathered: spill.EpochPartials, record: EpochRecord, looked: LookupResult | None = None) -> None:
        rows = table_rows.table_rows(gathered.rows, record.epoch, self._schema)
        known = (
            self._schema.empty_table()
            if looked is None
            else dedup_state.rows(looked.new, self.context.pipeline, record.epoch)
        )
        # Nothing between here and the commit may fail and be tried again: the windows have moved on.
        panes = self._schema.empty_table() if self.panes is None else self._panes(self.panes, gathered, record)
        rows = pa.concat_tables([rows, known, panes])
        delivery.deliver(self.committer, rows, gathered, record, self.context.probe)
        self._note_commit(record)
        if self.ids is not None and looked is not None:
            self.ids.remember(looked.new, record.watermark_after)
        if self.changelog is not None:
            self.changelog.add(panes)
            self.changelog.send()
        self.compactor.step()

    def _panes(self, panes: PaneOperator, gathered: spill.EpochPartials, record: EpochRecord) -> pa.Table:
        """Let an epoch end for its panes; return the rows of what comes out and of what is held."""
        pipeline, newest = self.context.pipeline, self.committer.newest
        passing = TimeProgress(
            now=to_micros(self.context.clock.now()),
            before=None if newest is None else newest.watermark_after,
            after=record.watermark_after,
            settles=self.context.time_policy.settles,
            epoch_ends=self.context.time_policy.epoch_ends,
        )
        accepted = spill.read_accepted(gathered, pipeline, self.committer.version.uri)
        return pane_rows.to_rows(panes.end_epoch(accepted, passing), pipeline, record.epoch)

    def _load_panes(self, trigger: Trigger) -> PaneOperator:
        """Return the windows that can still fire, from the epoch log."""
        pipeline, newest = self.context.pipeline, self.committer.newest
        panes = PaneOperator(pipeline, trigger, forgets=self.context.time_policy.closes)
        if newest is not None:
            is_same = newest.panes == panes_fingerprint(pipeline)
            watermark = newest.watermark_after
            panes.go_on(pane_rows.read(self.committer.table, pipeline, trigger, watermark=watermark, is_same=is_same))
        return panes

    def _load_ids(self) -> DedupState:
        """Return what is remembered of the records that the epoch log has counted."""
        found, newest = DedupState(self.context.settings, self.context.pipeline), self.committer.newest
        found.begin(self.committer.table, None if newest is None else newest.watermark_after)
        return found

    def _load_changelog(self) -> Changelog:
        """Go on from what the epoch log has; from nothing before the first epoch."""
        version = self.committer.version
        found = Changelog(self.context.settings, self.context.pipeline, self.context.client, stream=version.app_id)
        found.begin(None if self.committer.newest is None else EpochLog(version.uri))
        return found

    def _plan(self, number: int) -> aggregate.EpochPlan:
        noted = query.end_offsets(self.checkpoint, number, self.log.topic)
        if number:
            self._same_place(query.end_offsets(self.checkpoint, number - 1, self.log.topic))
        limit = self.limit
        end = noted if limit is None else {p: min(offset, limit.get(p, 0)) for p, offset in noted.items()}
        newest = self.committer.newest
        return aggregate.EpochPlan(
            epoch=0 if newest is None else newest.epoch + 1,
            start=dict.fromkeys(end, 0) | self.position,
            end=end,
            clipped=end != noted,
            watermark=newest.watermark_after if newest is not None and self.context.time_policy.closes else None,
        )

    def _same_place(self, begins: Mapping[int, int]) -> None:
        """Refuse a micro-batch that begins elsewhere than where the newest epoch ended: its record would not be true.

        Raises:
            LakeError: It does.
        """
        ours = {partition: offset for partition, offset in self.position.items() if offset}
        if ours != {partition: offset for partition, offset in begins.items() if offset}:
            msg = f"Stream of {self.context.pipeline.name}: expected a micro-batch that begins at {ours}, Spark noted "
            msg += f"{dict(begins)}.\nHint: nothing was written; start the driver again."
            raise LakeError(msg)

    def _record(
        self, plan: aggregate.EpochPlan, counted: aggregate.EpochCounts, time_now: WatermarkState
    ) -> EpochRecord:
        pipeline, version, newest = self.context.pipeline, self.committer.version, self.committer.newest
        return EpochRecord(
            epoch=plan.epoch,
            run_id=self.committer.run_id,
            topic=self.log.topic,
            topic_id=self.log.topic_id,
            cluster_id=self.log.cluster_id,
            start=plan.start,
            end=plan.end,
            max_event=dict(time_now.max_event),
            watermark_before=plan.watermark,
            watermark_after=time_now.watermark,
            idle=tuple(sorted(time_now.idle)),
            counts=counted.counts,
            records=counted.records,
            unknown=counted.unknown,
            lag=sum(max(0, end - plan.end.get(p, 0)) for p, end in self.high.items()),
            processing_time=self.context.clock.now().isoformat(timespec="milliseconds"),
            result_fingerprint=version.result_fingerprint,
            lateness_fingerprint=version.lateness_fingerprint,
            isolation=pipeline.source.isolation if newest is None else newest.isolation,
            in_force=None if newest is None else newest.in_force,
            folded_to=self.compactor.folded_to,
            conflicts=self.committer.conflicts,
            panes=panes_fingerprint(pipeline),
            delivery=pipeline.delivery,
            marks={} if newest is None else newest.marks,
            leaders=dict(self.continuity.proof.leaders),
        )

    def _advance(self, observed: Mapping[int, int], end: Mapping[int, int]) -> WatermarkState:
        """Return what is known of time once everything before `end` is read."""
        high = {p: max(self.high.get(p, 0), end.get(p, 0)) for p in {*self.high, *end}}
        seen = Observation(now=self.context.clock.monotonic(), read=end, high=high, max_event=observed)
        return self.context.time_policy.advance(self.time, seen, self.context.pipeline.lateness)

    def _tick_if_due(self) -> None:
        """Commit an epoch without data if time moved on, a partition fell idle, or a period of a trigger ended."""
        newest = self.committer.newest
        if newest is None:
            return
        state = self._advance({}, self.position)
        if state.watermark != newest.watermark_after or state.idle - set(newest.idle) or self._pane_is_due():
            self.tick(state)
        self.time = state

    def _pane_is_due(self) -> bool:
        due = None if self.panes is None else self.panes.due
        return due is not None and due <= to_micros(self.context.clock.now())

    def tick(self, time_now: WatermarkState, *, final: bool = False) -> None:
        """Commit an epoch without data. The caller holds the lock."""
        newest = self.committer.newest
        plan = aggregate.EpochPlan(
            epoch=0 if newest is None else newest.epoch + 1,
            start=self.position,
            end=self.position,
            clipped=False,
            watermark=None if newest is None else newest.watermark_after,
        )
        record = replace(self._record(plan, aggregate.NOTHING, time_now), tick=True, final=final)
        if final:
            end = final_watermark(time_now, self.context.pipeline.window, self.context.pipeline.lateness)
            record = replace(record, watermark_after=end)
        if not self._same_log():
            return
        empty = partial_schema(self.context.pipeline).empty_table()
        self._commit(spill.EpochPartials(rows=empty, counted=aggregate.NOTHING, number=0), record)

    def _same_log(self) -> bool:
        """Ask before a commit whether the log still is what was read; wait while no broker answers: it may come back.

        Returns:
            False: the driver was asked to stop while it waited. Nothing is committed; the next one does it.

        Raises:
            LogError: The topic is another one now, or holds other records than those that were read.
        """
        while True:
            try:
                ends = self.context.client.log_ends(self.log.topic)
                self.high = {p: end.offset for p, end in ends.items()}
                start_offsets.refuse_other(
                    self.context.pipeline, self.log.topic_id, self.context.client.topic_id(self.log.topic)
                )
                self.continuity.prove(ends)
            except LogError as error:
                if error.runbook != "KafkaUnreachable":
                    raise
                self.health.note_silence()
                log.warning("kafka_unreachable", pipeline=self.context.pipeline.name, waiting_before="commit")
                if self.context.stopping.wait(1.0):
                    return False
            else:
                self.health.note_answer()
                return True

    def _note_commit(self, record: EpochRecord) -> None:
        grown = sorted(set(record.end) - set(self.position))
        self.position = dict(record.end)
        self.context.probe("epoch.committed", record.epoch)
        self.context.beat.say(epoch=record.epoch, watermark=format_micros(record.watermark_after), lag=record.lag)
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


def restore_time(record: EpochRecord) -> WatermarkState:
    """Return what is known of time at a start: idleness is counted anew."""
    return WatermarkState(watermark=record.watermark_after, max_event=dict(record.max_event))

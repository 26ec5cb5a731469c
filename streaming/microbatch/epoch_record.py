"""Record of an epoch: offsets read, state of time and log, and settings under which its records were classified.

The settings are read from the micro-batches' session, and again whenever its confs change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import code, readback, spark
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.usage import PathCost, measure_cost
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.epochs.offsets import count_unread
from cutover.log.cut import LogId, Marks
from cutover.records.parsing.writer_schemas import list_digests
from cutover.records.watermark import WatermarkState, compute_final_watermark
from cutover.streaming.compaction.compactor import Compactor
from cutover.streaming.microbatch import aggregate, delivery
from cutover.streaming.microbatch.aggregate import AggregationPass, EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.microbatch.enrichment import EpochDimensions
from cutover.streaming.microbatch.spill import EpochPartials
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink.committer import Committer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OWN = (
    "cutover.streaming.compaction.merge",
    "cutover.streaming.microbatch.aggregate",
    "cutover.streaming.microbatch.dedup_state",
    "cutover.streaming.microbatch.spill",
    "cutover.streaming.process.time_policy",
    "cutover.streaming.source.query",
)
"""What the stream alone judges and aggregates by; every epoch of a version has to have the same."""


class DriverSettingsRecorder:
    """Settings in force in one driver, as the epochs of its queries find them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._confs: Mapping[str, str] = {}  # of the session, when all of them were last read
        self._found: EffectiveSettings | None = None
        self._isolation = ""

    def add_settings(
        self, record: EpochRecord, batch: "DataFrame", session: "SparkSession | None", query: str
    ) -> EpochRecord:
        """Return an epoch's record with the settings that its records were judged by.

        Args:
            record: With the digest of the epoch before it, if there is one.
            batch: The micro-batch.
            session: That the query was started in.
            query: Its name.
        """
        in_force = self._read(batch, session, query)
        is_same = record.in_force == in_force.digest
        if not is_same and record.in_force is not None:
            log.warning("settings_changed", pipeline=self._pipeline.name, epoch=record.epoch, runbook="SealBroken")
        items = None if is_same else in_force.families
        return replace(record, in_force=in_force.digest, in_force_items=items, isolation=self._isolation)

    def _read(self, batch: "DataFrame", session: "SparkSession | None", query: str) -> EffectiveSettings:
        now = readback.read_confs(batch.sparkSession)
        if self._found is None or now != self._confs:
            own_code = {"code of the stream": code.hash_modules(OWN)}
            session_settings = readback.read_session_settings(batch.sparkSession, self._pipeline, own_code)
            self._isolation = readback.read_isolation(batch, session, query)
            self._found, self._confs = session_settings, now
        return self._found


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRead:
    """Result of one pass over a micro-batch."""

    aggregation: AggregationPass
    partials: EpochPartials
    marks: Marks
    dimensions: EpochDimensions


class EpochRecorder:
    """Makes the records of one driver's epochs."""

    def __init__(
        self, context: DriverContext, committer: Committer, log_id: LogId, continuity: Continuity, compactor: Compactor
    ) -> None:
        self._context, self._committer, self._log = context, committer, log_id
        self._continuity, self._compactor = continuity, compactor
        self._session: SparkSession | None = None  # that the query was started in
        self._judging = DriverSettingsRecorder(context.pipeline)
        self._schemas: dict[str, str] = {}  # that epochs of this driver have recorded

    def begin_query(self, session: "SparkSession") -> None:
        """Note that another query is about to start in a session, which creates new clients."""
        self._session, self._judging = session, DriverSettingsRecorder(self._context.pipeline)

    def record_batch(
        self, plan: EpochPlan, read: EpochRead, time_now: WatermarkState, batch: "DataFrame", query: str
    ) -> EpochRecord:
        """Return the record of an epoch with data, its `seconds` still open.

        Args:
            plan: Its offsets, and the watermark that judged it.
            read: The result of the pass.
            time_now: The watermark state after it.
            batch: The micro-batch, whose session provides the settings in force.
            query: The name of Spark's query.
        """
        epoch_partials, lookup_result = read.partials, read.aggregation.lookup
        base = self._record(plan, epoch_partials.counts, time_now)
        record = replace(
            base,
            one_key_share=aggregate.one_key_share(epoch_partials.rows, self._context.pipeline),
            rows=epoch_partials.number,
            oldest_log_time=aggregate.oldest_log_time(read.aggregation),
            marks={**base.marks, **read.marks},
            dimensions=read.dimensions.versions,
            dimension_ids=read.dimensions.ids,
            schemas=self._list_new_schemas(),
            windows=delivery.windows_of(epoch_partials, self._committer.version.uri, base.delivery),
        )
        if lookup_result is not None:
            record = replace(record, id_conflicts=lookup_result.conflicts)
        return self._judging.add_settings(record, batch, self._session, query)

    def _list_new_schemas(self) -> dict[str, str]:
        """Return the digests of the schemas that no epoch of this driver has recorded yet."""
        schemas = list_digests(self._context.pipeline)
        new_schemas = {number: digest for number, digest in schemas.items() if self._schemas.get(number) != digest}
        self._schemas = schemas
        return new_schemas

    def record_tick(self, plan: EpochPlan, time_now: WatermarkState, *, final: bool) -> EpochRecord:
        """Return the record of an epoch without data.

        Args:
            plan: Begins and ends at one position.
            time_now: The watermark state.
            final: No record comes any more: the watermark goes to where every window is closed.
        """
        record = replace(self._record(plan, aggregate.NOTHING, time_now), tick=True, final=final)
        pipeline = self._context.pipeline
        end = compute_final_watermark(time_now, pipeline.window, pipeline.lateness) if final else record.watermark_after
        return replace(record, watermark_after=end)

    def _record(self, plan: EpochPlan, epoch_counts: aggregate.EpochCounts, time_now: WatermarkState) -> EpochRecord:
        pipeline, version, newest = self._context.pipeline, self._committer.version, self._committer.newest
        return EpochRecord(
            epoch=plan.epoch,
            run_id=self._committer.run_id,
            topic=self._log.topic,
            topic_id=self._log.topic_id,
            cluster_id=self._log.cluster_id,
            start=plan.start,
            end=plan.end,
            max_event=dict(time_now.max_event),
            watermark_before=plan.watermark,
            watermark_after=time_now.watermark,
            idle=tuple(sorted(time_now.idle)),
            counts=epoch_counts.counts,
            records=epoch_counts.records,
            unknown=epoch_counts.unknown,
            lag=count_unread(self._continuity.high, plan.end),
            processing_time=self._context.clock.now().isoformat(timespec="milliseconds"),
            result_fingerprint=version.result_fingerprint,
            lateness_fingerprint=version.lateness_fingerprint,
            isolation=pipeline.source.isolation if newest is None else newest.isolation,
            in_force=None if newest is None else newest.in_force,
            folded_to=self._compactor.folded_to,
            conflicts=self._committer.conflicts,
            panes=panes_fingerprint(pipeline),
            delivery=pipeline.delivery,
            marks={} if newest is None else newest.marks,
            leaders=dict(self._continuity.proof.leaders),
            cost=self._measure_cost(),
        )

    def _measure_cost(self) -> PathCost:
        """Return what the driver has used so far; the committer adds the files of the epoch itself."""
        is_local, committed = spark.is_local(self._context.lake.settings), self._committer.written_bytes
        return measure_cost(self._context.meter, is_local=is_local, written_bytes=committed)


def is_behind(read: int, high: int) -> bool:
    """Return whether an epoch was so full that the next one begins at once.

    Args:
        read: Offsets of the epoch.
        high: That an epoch may have; Spark rounds it down for each partition, so half of it counts as full.
    """
    return 2 * read >= high

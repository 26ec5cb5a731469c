"""Record of an epoch, and its commit: offsets read, state of time and log, and settings that classified its records.

The settings are read from the micro-batches' session, and again whenever its confs change.

Data and offsets are committed together, or one before the other where the definition requires it. `at_least_once`
writes the data first: a driver that dies in between leaves them, and the next one reads their offsets again.
`at_most_once` records the offsets first: their data are lost if the driver dies before it has written them.

Of each dimension, epochs are joined with one version, kept in Spark for as long as it is the newest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cutover.clock import Clock, Probe
from cutover.definition.compile.fingerprint import panes_fingerprint
from cutover.definition.model.pipeline import Delivery, Pipeline
from cutover.engine import readback, spark
from cutover.engine.effective_settings import EffectiveSettings
from cutover.engine.usage import PathCost, measure_cost
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control.losses import Starts
from cutover.lake.dimensions import dimension as dimensions
from cutover.lake.dimensions import joined_versions as dimension_frames
from cutover.lake.dimensions.dimension import Dimension
from cutover.lake.epochs.delivery import AT_LEAST_ONCE, EXACTLY_ONCE, Attempt, count_unread
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables.schemas import RowKind
from cutover.log.cut import LogId, Marks
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.records.enrich import DimensionFrame, Dimensions
from cutover.records.parsing.writer_schemas import list_digests
from cutover.records.watermark import WatermarkState, compute_final_watermark
from cutover.streaming.compaction.compactor import Compactor
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import AggregationPass, EpochPartials, EpochPlan
from cutover.streaming.microbatch.continuity import Continuity
from cutover.streaming.process.context import DriverContext
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Committer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDimensions:
    """Dimensions that one epoch is joined with."""

    frames: Dimensions
    versions: Mapping[str, int]  # lookup -> version of the table
    ids: Mapping[str, str]  # lookup -> id of the table


class StreamEnrichment:
    """Checks for new versions between epochs, at most every few seconds. Not thread-safe."""

    def __init__(self, lake: PipelineLake, clock: Clock) -> None:
        self._lake, self._clock = lake, clock
        self._kept: dict[str, tuple[Dimension, DimensionFrame]] = {}
        self._looked: float | None = None

    def read_dimensions(self, spark: "SparkSession") -> EpochDimensions:
        """Return what the next epoch is joined with.

        Raises:
            LakeError: A new version cannot be joined. An older one would be, and is not: nothing would show that.
        """
        if self._lake.pipeline.lookups and self._is_due():
            for name in self._lake.pipeline.lookups:
                self._refresh(spark, name)
        return EpochDimensions(
            frames={name: joined for name, (_, joined) in self._kept.items()},
            versions={name: dimension.version for name, (dimension, _) in self._kept.items()},
            ids={name: dimension.table_id for name, (dimension, _) in self._kept.items()},
        )

    def _is_due(self) -> bool:
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < self._lake.settings.dimensions.look_seconds:
            return False
        self._looked = now
        return True

    def _refresh(self, spark: "SparkSession", name: str) -> None:
        cached = self._kept.get(name)
        if cached is not None and cached[0].is_newest(self._lake):
            return
        dimension = dimensions.open_dimension(self._lake, name)
        if cached is not None:
            _reject_other(self._lake.pipeline, cached[0], dimension)
            cached[1].frame.unpersist()
        limit = self._lake.settings.dimensions.broadcast_rows
        self._kept[name] = dimension, dimension_frames.join_version(spark, dimension, broadcast_rows=limit)
        log.info(
            "dimension_taken",
            pipeline=self._lake.pipeline.name,
            lookup=name,
            version=dimension.version,
            rows=dimension.size,
        )


def _reject_other(pipeline: Pipeline, current: Dimension, newest: Dimension) -> None:
    """Check that a table was not recreated while the stream ran: versions of the old one can no longer be read."""
    if current.table_id != newest.table_id or newest.version < current.version:
        msg = (
            f"Pipeline `{pipeline.name}`, lookup `{current.name}`, dimension `{newest.table.table_uri}`: expected a "
            f"version after {current.version} of table {current.table_id}, got version {newest.version} of "
            f"{newest.table_id}: it was created again."
            "\nHint: a running stream does not switch tables; restart it if the new one is intended."
        )
        raise LakeError(msg, runbook="DimensionUnusable")


OWN = (
    "cutover.streaming.compaction.merge",
    "cutover.streaming.microbatch.dedup_state",
    "cutover.streaming.microbatch.aggregate",
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
            own_code = {"code of the stream": readback.hash_modules(OWN)}
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
            windows=windows_of(epoch_partials, self._committer.version.uri, base.delivery),
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


def table_rows(partials: pa.Table, epoch: int, schema: pa.Schema) -> pa.Table:
    """Return an epoch's partial aggregates and ledger as rows of the epoch log.

    Args:
        partials: One row for each (class, window, key), or record that did not count; column `_class` says which.
        epoch: The number of the epoch.
        schema: Of the epoch log; columns that `partials` lacks are null.
    """
    kinds = [RowKind.PARTIAL if kind == Class.ACCEPTED else RowKind.LEDGER for kind in partials["_class"].to_pylist()]
    data = partials.append_column("_kind", pa.array(kinds, pa.string()))
    data = data.append_column("_epoch", pa.array([epoch] * len(kinds), pa.int64()))
    for field in schema:
        if field.name not in data.column_names:
            data = data.append_column(field.name, pa.nulls(len(kinds), field.type))
    return data.select(schema.names).cast(schema)


def deliver(
    committer: Committer, rows: pa.Table, epoch_partials: EpochPartials, record: EpochRecord, probe: Probe
) -> None:
    """Commit an epoch as its record says: once, or in two commits with the point `epoch.apart` between them.

    Args:
        committer: The driver's.
        rows: All rows of the epoch that the driver holds, without its record.
        epoch_partials: Where its partial rows are.
        record: The epoch's.
        probe: Called at `epoch.apart`.

    Raises:
        LakeError: As `Committer.commit`.
    """
    actions = epoch_partials.spilled_files or ()
    if record.delivery == EXACTLY_ONCE or record.tick:
        committer.commit(rows, record, actions)
        return
    data, nothing = pa.concat_tables([rows, _attempt(rows, record)]), rows.slice(0, 0)
    if record.delivery == AT_LEAST_ONCE:
        committer.add(data, record.epoch, actions)
        probe("epoch.apart", record.epoch)
        committer.commit(nothing, record)
    else:
        committer.commit(nothing, record)
        probe("epoch.apart", record.epoch)
        committer.add(data, record.epoch, actions)


def windows_of(epoch_partials: EpochPartials, uri: str, mode: Delivery) -> Starts | None:
    """Return the first start and the last end, microseconds, of an epoch's partial rows.

    None if no row has a window, and where it is never needed: a commit that has data and offsets loses no range.
    """
    if mode == EXACTLY_ONCE:
        return None
    spans_of_parts = [_span(table) for table in _parts(epoch_partials, uri)]
    spans = [span for span in spans_of_parts if span is not None]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def _attempt(rows: pa.Table, record: EpochRecord) -> pa.Table:
    """One row in the epoch log's schema, with run, offsets, counts and windows as JSON."""
    attempt = Attempt(
        epoch=record.epoch,
        run_id=record.run_id,
        start=record.start,
        end=record.end,
        counts=record.counts,
        windows=record.windows,
    )
    return pa.Table.from_pylist(
        [{"_kind": RowKind.ATTEMPT, "_epoch": record.epoch, "_record": attempt.to_json()}], schema=rows.schema
    )


def _parts(epoch_partials: EpochPartials, uri: str) -> Iterable[pa.Table]:
    if epoch_partials.spilled_files is None:
        return [epoch_partials.rows]
    system, root = files.resolve_folder(uri)
    columns = ["window_start", "window_end"]
    return (
        pq.read_table(f"{root}/{action.path}", filesystem=system, columns=columns)
        for action in epoch_partials.spilled_files
    )


def _span(table: pa.Table) -> Starts | None:
    start, end = pc.min(table["window_start"]).as_py(), pc.max(table["window_end"]).as_py()
    if start is None or end is None:
        return None
    return pc.min(table["window_start"]).cast(pa.int64()).as_py(), pc.max(table["window_end"]).cast(pa.int64()).as_py()

"""The streaming path once more over epochs that were committed: the same records in each, perhaps another lateness.

Parsing, classes, watermark, aggregation and commit are the driver's own. The ends of epochs and the idle partitions
come from their records, since both depended on the clock. Ids, panes and topics of the pipeline are not touched:
no trigger fires, no changelog is written.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cutover.clock import SystemClock, silent
from cutover.definition.model.joins import DIMENSIONS_FOLDER
from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.engine import spark
from cutover.errors import LakeError, LogError
from cutover.lake.epochs.delivery import compute_next_epoch
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.registered_functions import EpochDone
from cutover.log.kafka import LogClient
from cutover.log.topic_partitions import format_partition, name_log
from cutover.pipeline_lake import PipelineLake
from cutover.records.reading import scan
from cutover.records.watermark import Observation, WatermarkState, advance_watermark
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.microbatch.aggregate import EpochPlan
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat, run_folder
from cutover.streaming.simulation.runner import open_scratch_home
from cutover.streaming.sink.committer import Committer, new_run_id
from cutover.streaming.source.start_offsets import StartOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEVER = 2**31 - 1  # epochs: rows keep the epoch that they came with


class RecordedTime:
    """The time policy of a repeat: the watermark follows event times, but idle is who was idle then."""

    settles = closes = epoch_ends = True

    def __init__(self, record: EpochRecord) -> None:
        self.record = record

    def advance(self, state: WatermarkState, observation: Observation, lateness: Lateness) -> WatermarkState:
        """Return the watermark state after the epoch; where its watermark did not advance, it does not here either.

        A partition whose unread records have no known time yet holds it back: only the record shows that.
        """
        record = self.record
        active = {p: end for p, end in record.end.items() if p not in record.idle}
        observed = replace(observation, now=0.0, read=record.end, high=active)
        advanced = advance_watermark(replace(state, read={}, quiet_since={}), observed, lateness)
        is_held = record.watermark_after == record.watermark_before
        watermark = state.watermark if is_held else advanced.watermark
        return replace(advanced, watermark=watermark, idle=frozenset(record.idle))


class RepeatedStream(MicrobatchEngine):
    """A stream whose epochs are those of another version."""

    def __init__(
        self, context: DriverContext, committer: Committer, beginning: StartOffsets, recorded_time: RecordedTime
    ) -> None:
        super().__init__(context, committer, beginning)
        self._recorded = recorded_time

    def repeat(self, session: "SparkSession", record: EpochRecord) -> None:
        """Read what an epoch has read, or let time move where it did without records."""
        self._recorded.record = record
        offsets = {p: (record.start.get(p, 0), record.end[p]) for p in record.end_moved}
        with self.lock:
            if offsets:
                records = scan.read_records(session, self.context.lake, (offsets,))
                self._process_epoch(records, record.epoch)
            elif record.watermark_after != record.watermark_before:
                time_now = self._advance({}, self.position)
                self.tick(time_now)
                self.time = time_now

    def _plan(self, number: int) -> EpochPlan:  # noqa: ARG002 -- Spark's number of a micro-batch; here there is none
        newest, record = self.committer.newest, self._recorded.record
        return EpochPlan(
            epoch=compute_next_epoch(newest),
            start=dict.fromkeys(record.end, 0) | dict(record.start),
            end=record.end,
            clipped=False,
            watermark=None if newest is None else newest.watermark_after,
        )


@contextmanager
def repeat(lake: PipelineLake, records: Sequence[EpochRecord], progress: EpochDone) -> Iterator[str]:
    """Run the streaming path over epochs again and yield the location of its epoch log, which is deleted afterwards.

    Args:
        lake: The definition with the lateness to try; its tables are not written.
        records: Of the epochs, in order, from the first.
        progress: Called after each epoch.

    Raises:
        LogError: The log no longer holds all that the epochs read, or is another one.
        LakeError: The epochs were joined with several versions of a dimension.
    """
    settings, pipeline = lake.settings, lake.pipeline
    client = LogClient(settings)
    _reject_other_log(client, pipeline, records)
    own_pipeline = replace(pipeline, trigger=None, changelog=None)
    with open_scratch_home(settings, client, "repeat") as scratch:
        spark.start_early(settings, app=f"cutover-repeat-{pipeline.name}")
        if pipeline.lookups:
            _link_dimensions(settings, scratch)
        never_folded = scratch.stream.model_copy(update={"fold_every": _NEVER})
        scratch_settings = scratch.model_copy(update={"stream": never_folded})
        session = spark.session(settings, app=f"cutover-repeat-{pipeline.name}")
        recorded_time = RecordedTime(records[0])
        context = _make_context(PipelineLake(scratch_settings, own_pipeline), client, recorded_time)
        committer, beginning = driver.prepare_stream(context)
        stream = RepeatedStream(context, committer, beginning, recorded_time)
        for number, record in enumerate(records, start=1):
            stream.repeat(session, record)
            progress(number, len(records))
        yield committer.version.uri


def _reject_other_log(client: LogClient, pipeline: Pipeline, records: Sequence[EpochRecord]) -> None:
    log = client.describe(name_log(pipeline))
    if {record.topic_id for record in records} != {log.topic_id}:
        msg = f"Epochs of `{pipeline.name}`: expected all from topic id {log.topic_id}, got others too."
        raise LogError(msg + "\nHint: records of a deleted topic cannot be read again.")
    first_offsets: dict[int, int] = {}
    for record in records:
        for partition in record.end_moved:
            first_offsets.setdefault(partition, record.start.get(partition, 0))
    earliest = client.earliest(log.topic)
    expired_partitions = sorted(p for p, start in first_offsets.items() if earliest.get(p, 0) > start)
    if expired_partitions:
        places = "; ".join(format_partition(log.topic, p) for p in expired_partitions)
        msg = f"Log of `{pipeline.name}`: expected all records that its epochs read, got partitions that begin later: "
        raise LogError(msg + f"{places}.\nHint: only what the log still holds can be read again.")
    joined = {tuple(sorted(record.dimensions.items())) for record in records if record.dimensions}
    if len(joined) > 1:
        msg = f"Epochs of `{pipeline.name}`: expected one version of each dimension, got several."
        raise LakeError(msg + "\nHint: a repeat joins with the newest version alone.")


def _link_dimensions(settings: Settings, scratch: Settings) -> None:
    """Let the scratch lake show the dimensions of the installation; they are only read."""
    if "://" in settings.lake_uri:
        msg = "Repeat: expected a lake in a folder, whose dimensions can be linked, got an object store."
        raise LakeError(msg + "\nHint: copy the dimensions, and set `lake` to the copy.")
    place = Path(scratch.lake_uri) / DIMENSIONS_FOLDER
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(Path(settings.lake_uri).resolve() / DIMENSIONS_FOLDER, target_is_directory=True)


def _make_context(lake: PipelineLake, client: LogClient, recorded_time: RecordedTime) -> DriverContext:
    clock, place = SystemClock(), run_folder(lake.settings, lake.name)
    place.mkdir(parents=True)
    return DriverContext(
        lake=lake,
        client=client,
        clock=clock,
        probe=silent,
        beat=HeartbeatWriter(place / "heartbeat.json", first_beat(new_run_id(), clock), seconds=1, clock=clock),
        place=place,
        time_policy=recorded_time,
    )

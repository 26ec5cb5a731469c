"""Inputs and state of one batch run, shared by its steps, and the lock that admits one run of a pipeline at a time.

The kernel releases the lock when its holder dies.

Settings in force are read from the Spark session of a run; all runs of a table must share them.
"""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from cutover.batch.plan import RunPlan, remaining_offsets
from cutover.batch.read.index import IndexHistory, find_new_offsets
from cutover.batch.read.scan import BatchCut, BatchEnrichment, Staging
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import readback
from cutover.engine.effective_settings import EffectiveSettings, ReportedSettings, find_drifts
from cutover.engine.spark import session
from cutover.engine.usage import UsageMeter
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake import batch_runs
from cutover.lake.batch_runs import ExpectationResult, Incomplete, Range
from cutover.lake.control.losses import Starts, find_touched_windows
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import complete_read
from cutover.lake.journal_rows import Loss
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.parsing.writer_schemas import list_digests
from cutover.records.reading.scan import CountedRead, Offsets, count_records, read_records
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = (
    "cutover.batch.plan",
    "cutover.batch.read.scan",
    "cutover.batch.write.result",
    "cutover.batch.windows",
    "cutover.batch.write.replace",
)
"""Modules of the batch path that determine results."""


class OtherSettings(Exception):  # noqa: N818 -- no error: the run recomputes everything
    """The runs that this one would build on used other settings; nothing was published."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


@dataclass(slots=True)
class RunSettingsRecorder:
    """Recorder of the settings in force and the isolation of all reads of one run; empty before the first read."""

    in_force: EffectiveSettings | None = None
    isolations: set[str] = field(default_factory=set)

    def make_run_fields(self, pipeline: Pipeline, history: IndexHistory) -> dict[str, Any]:
        """Return the fields of the recorded run; a run without reads has those of the previous run."""
        previous = history.newest
        if self.in_force is None:
            isolation = pipeline.source.isolation if previous is None else previous.isolation
            return {"isolation": isolation, "in_force": history.in_force}
        schemas = list_digests(pipeline)
        digest = self.in_force.digest
        items = None if digest == history.in_force else self.in_force.families
        isolation = ",".join(sorted(self.isolations)) or pipeline.source.isolation
        return {"isolation": isolation, "in_force": digest, "in_force_items": items, "schemas": schemas}

    def record_read(self, records: "DataFrame", pipeline: Pipeline, history: IndexHistory) -> None:
        """Record the settings of one read.

        Raises:
            OtherSettings: Earlier runs used other settings.
            LakeError: An earlier read of this run had other settings.
        """
        self.check_session(records.sparkSession, pipeline, history)
        self.isolations.add(readback.read_isolation(records))

    def check_session(self, spark: "SparkSession", pipeline: Pipeline, history: IndexHistory) -> None:
        """Record the settings of a session that reads the log, with the errors of `record_read`."""
        now = readback.read_session_settings(spark, pipeline, {"code of batch": readback.hash_modules(OWN)})
        if self.in_force is not None and now != self.in_force:
            msg = f"Batch of `{pipeline.name}`: expected the same settings for all reads of a run, got different ones."
            raise LakeError(msg + "\nHint: nothing was published; run it again.", runbook="SealBroken")
        if history.in_force not in {None, now.digest}:
            raise OtherSettings(now.digest)
        self.in_force = now


def are_apart(history: IndexHistory, target: BatchCut) -> bool:
    """Return whether the recorded settings of stream and batch differ; then even a run without records checks again.

    Otherwise a batch table computed under unintended settings would stay until the next record arrives.
    """
    newest = history.newest
    batch = None if newest is None else batch_runs.find_effective_settings(history.runs, newest)
    stream = EpochLog(target.version.uri).in_force(target.record.in_force)
    if batch is None or stream is None:
        return False
    return bool(
        find_drifts(
            [ReportedSettings(reporter="batch", settings=batch), ReportedSettings(reporter="stream", settings=stream)]
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Inputs of a run before it reads records, with the reads that it has made so far."""

    lake: PipelineLake
    target: BatchCut
    client: LogClient
    earliest: Mapping[int, int]  # first retained offset of each partition
    history: IndexHistory
    accepted_losses: tuple[Loss, ...]  # of this version of the stream and of earlier ones
    lookups: BatchEnrichment
    staged: Staging
    run_id: str
    anew: bool  # earlier runs are not trusted: the whole log is read again
    requested: tuple[Range, ...] | None  # None: every dirty window
    started: datetime
    began: float  # the same on a monotonic clock, to measure the duration
    is_confirmed: bool = False  # a person confirmed that rows may be removed
    replaces_earlier_runs: bool = False  # earlier runs used other settings, so their rows are replaced
    settings_recorder: RunSettingsRecorder = field(default_factory=RunSettingsRecorder)
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts from the start of the run
    held_ranges: Sequence[Range] = ()  # windows that have rows of earlier runs in the batch table
    recorded_table: DeltaTable | None = (
        None  # with `anew`: the table of the latest recorded run; None: it cannot be trusted
    )
    counted_reads: list[CountedRead] = field(default_factory=list)  # reads so far
    first_offsets: Mapping[int, int] = field(default_factory=dict)  # of an audit: reading starts at these offsets

    @property
    def pipeline(self) -> Pipeline:
        """Definition of the pipeline."""
        return self.lake.pipeline

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection that can query staged rows."""
        return self.staged.connection

    @property
    def spark(self) -> "SparkSession":
        """Return the process's Spark session, which is started on the first read, so a run without work starts none."""
        return session(self.lake.settings, app=f"cutover batch {self.pipeline.name}")

    def records(self, reads: tuple[Offsets, ...]) -> "DataFrame":
        """Read the records of some offsets, as Spark's Kafka source returns them.

        Raises:
            OtherSettings: The runs that this one builds on used other settings.
        """
        records = read_records(self.spark, self.lake, reads)
        self.settings_recorder.record_read(records, self.pipeline, self.history)
        frame, counted_read = count_records(records, reads)
        self.counted_reads.append(counted_read)
        return frame

    def check_reads(self) -> None:
        """Check that the log has all records of the ranges that were read.

        Raises:
            LogError: Records are missing that no recorded loss covers, or no broker answers.
        """
        if self.counted_reads:
            log = complete_read.ReadLog(
                lake=self.lake,
                version=self.target.version,
                client=self.client,
                log_id=self.target.record.cut.log,
            )
            complete_read.check_complete(
                self.spark, log, ((counted.reads, counted.records) for counted in self.counted_reads)
            )

    def dimensions(self, reads: tuple[Offsets, ...]) -> Dimensions:
        """Return the dimensions that the records of some offsets are joined with; resolved before Spark starts."""
        resolved = self.lookups.resolve_versions(reads)
        return self.lookups.frames(self.spark, resolved) if resolved else NO_DIMENSIONS

    @property
    def scan(self) -> int:
        """Ordinal among the pipeline's runs, from 0: the batch index orders scans by it."""
        return len(self.history.runs)

    @property
    def lost_windows(self) -> tuple[Starts, ...]:
        """Return the ranges of window starts whose windows may lack records that can no longer be read."""
        return find_touched_windows(self.accepted_losses)

    @property
    def is_behind(self) -> bool:
        """Return whether an earlier run has read beyond the cut: at another stream version or a later epoch."""
        scanned = self.history.scanned
        return any(offset < scanned.get(partition, 0) for partition, offset in self.target.record.end.items())

    @property
    def new_offsets(self) -> Offsets:
        """Return the offsets of this run's scan: `[previous cut, cut)`; none if an earlier run read beyond the cut."""
        return (
            {}
            if self.is_behind
            else remaining_offsets(find_new_offsets(self.history, self.target.record.end), self.first_offsets)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedRows:
    """Rows of earlier runs that stay in the table although the run replaces the whole table."""

    rows: pa.Table  # in the batch table's schema
    ranges: tuple[Range, ...]  # windows of which these are all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRun:
    """Results of a run that are staged but not published."""

    scanned: Offsets
    plan: RunPlan
    incomplete: tuple[Incomplete, ...]
    contract: tuple[ExpectationResult, ...]
    open_from: int | None = None  # for sessions: see `BatchRun.open_from`
    retained: RetainedRows | None = None  # if the run replaces the whole table; None: it replaces only what it computed


PATIENCE = 900.0  # seconds; a run of a year of flights takes less than one minute


@contextmanager
def writer_lock(settings: Settings, pipeline: str, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the pipeline's batch lock; a second run waits for the first, or is rejected if `patience` is 0.

    Raises:
        LakeError: The other run did not end in time.
    """
    folder = settings.run_dir / pipeline
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "batch.lock"
    with path.open("a", encoding="utf-8") as file:
        if not _try_lock(file):
            log.info("batch_waiting", pipeline=pipeline, lock=str(path))
            _wait(file, pipeline, patience)
        yield


def _wait(file: TextIOWrapper, pipeline: str, patience: float) -> None:
    attempts = Retrying(
        stop=stop_after_delay(patience), wait=wait_fixed(0.2), retry=retry_if_exception_type(BlockingIOError)
    )
    try:
        attempts(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except RetryError:
        if not patience:
            msg = f"Batch of `{pipeline}`: expected no run and no repair under way, got one that holds `batch.lock`."
            raise LakeError(msg + "\nHint: try again once it has ended.", runbook="BatchNotFresh") from None
        msg = (
            f"Batch of `{pipeline}`: expected the run that is under way to end within {patience:g} s, it has not ended."
        )
        raise LakeError(
            msg + "\nHint: check that run before you start a second one.", runbook="BatchNotFresh"
        ) from None


def _try_lock(file: TextIOWrapper) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

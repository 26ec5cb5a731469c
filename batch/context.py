"""Inputs and state of one batch run, shared by its steps, and the lock that admits one run of a pipeline at a time.

The kernel releases the lock when its holder dies.
"""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from cutover.batch.cut import BatchCut
from cutover.batch.plan import RunPlan, remaining_offsets
from cutover.batch.read.index import IndexHistory, find_new_offsets
from cutover.batch.read.scan import BatchEnrichment
from cutover.batch.read.settings_in_force import RunSettingsRecorder
from cutover.batch.staging import Staging
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.spark import session
from cutover.engine.usage import UsageMeter
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.batch_runs import ExpectationResult, Incomplete, Range
from cutover.lake.control.losses import Starts, find_touched_windows
from cutover.lake.integrity import complete_read
from cutover.lake.journal_rows import Loss
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.reading.scan import CountedRead, Offsets, count_records, read_records
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

"""What the steps of one run share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from cutover.batch.cut import BatchCut
from cutover.batch.plan.dirty import RunPlan
from cutover.batch.plan.retention import remaining_offsets
from cutover.batch.read.enrichment import BatchEnrichment
from cutover.batch.read.index import IndexHistory, new_offsets
from cutover.batch.read.settings_in_force import RunSettingsRecorder
from cutover.batch.staging import Staging
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.spark import session
from cutover.engine.usage import UsageMeter
from cutover.lake.batch_runs import ExpectationResult, Incomplete, Range
from cutover.lake.control.losses import Starts, find_touched_windows
from cutover.lake.integrity import complete_read
from cutover.lake.journal_rows import Loss
from cutover.log.kafka import LogClient
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.reading.scan import CountedRead, Offsets, count_records, read_records
from cutover.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """A run before it has read anything."""

    settings: Settings
    pipeline: Pipeline
    target: BatchCut
    client: LogClient
    earliest: Mapping[int, int]  # first offset left of each partition
    history: IndexHistory
    recorded: tuple[Loss, ...]  # losses that were accepted, of this version of the stream and of those before it
    lookups: BatchEnrichment
    staged: Staging
    run_id: str
    anew: bool  # nothing of earlier runs is kept
    wanted: tuple[Range, ...] | None  # None: every dirty window
    started: datetime
    began: float  # the same by a clock that never goes back, for how long it takes
    begins_anew: bool = False  # the runs before judged by other settings: what they left is replaced
    judging: RunSettingsRecorder = field(default_factory=RunSettingsRecorder)
    meter: UsageMeter = field(default_factory=UsageMeter)  # counts from the run's beginning on
    held: Sequence[Range] = ()  # windows whose rows earlier runs left in the batch table
    recorded_table: DeltaTable | None = None  # with `anew`: the table as those runs left it; None: it cannot be trusted
    counted: list[CountedRead] = field(default_factory=list)  # reads so far
    begins: Mapping[int, int] = field(default_factory=dict)  # of an audit: nothing before these offsets is read

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection that sees what is staged."""
        return self.staged.connection

    @property
    def spark(self) -> "SparkSession":
        """Return the process's Spark session, started when something is to be read: a run without work starts none."""
        return session(self.settings, app=f"cutover batch {self.pipeline.name}")

    def records(self, reads: tuple[Offsets, ...]) -> "DataFrame":
        """Return the records of some offsets, as Spark's Kafka source gives them.

        Raises:
            OtherSettings: The runs on which this one builds judged their records by other settings.
        """
        records = read_records(self.spark, self.settings, self.pipeline, reads)
        self.judging.note(records, self.pipeline, self.history)
        frame, counted_read = count_records(records, reads)
        self.counted.append(counted_read)
        return frame

    def check_reads(self) -> None:
        """Raise if the log lacks records in a range that was read.

        Raises:
            LogError: Records are missing that no recorded loss names, or no broker answers.
        """
        if self.counted:
            log = complete_read.ReadLog(
                settings=self.settings,
                pipeline=self.pipeline,
                version=self.target.version,
                client=self.client,
                log_id=self.target.record.cut.log,
            )
            complete_read.check_complete(
                self.spark, log, ((counted.reads, counted.records) for counted in self.counted)
            )

    def dimensions(self, reads: tuple[Offsets, ...]) -> Dimensions:
        """Return the dimensions that the records of some offsets are joined with; found before Spark starts."""
        resolved = self.lookups.resolve_versions(reads)
        return self.lookups.frames(self.spark, resolved) if resolved else NO_DIMENSIONS

    @property
    def scan(self) -> int:
        """Ordinal among the pipeline's runs, from 0: the batch index orders scans by it."""
        return len(self.history.runs)

    @property
    def lost(self) -> tuple[Starts, ...]:
        """Return the windows, by their starts, that may lack records which can no longer be read."""
        return find_touched_windows(self.recorded)

    @property
    def behind(self) -> bool:
        """Return whether an earlier run has read beyond the cut: of another stream version, or of a later epoch."""
        scanned = self.history.scanned
        return any(offset < scanned.get(partition, 0) for partition, offset in self.target.record.end.items())

    @property
    def new(self) -> Offsets:
        """Return the offsets of this run's scan: `[previous cut, cut)`; none if the cut is behind."""
        return {} if self.behind else remaining_offsets(new_offsets(self.history, self.target.record.end), self.begins)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Rows of earlier runs that stay in the table although the run replaces all of it."""

    rows: pa.Table  # in the batch table's schema
    ranges: tuple[Range, ...]  # of the windows that they are all the rows of


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRun:
    """What a run found and staged, before it publishes."""

    scanned: Offsets
    plan: RunPlan
    incomplete: tuple[Incomplete, ...]
    contract: tuple[ExpectationResult, ...]
    open_from: int | None = None  # of sessions, as the run records it
    kept: KeptRows | None = None  # of a run that replaces the whole table; None: it replaces what it computed

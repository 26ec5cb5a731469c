"""Streaming variants over one topic, each reading the log from its beginning into a separate table."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.bench import Bench
from benchmarks.peers import streaming_jobs
from benchmarks.workloads import events
from benchmarks.workloads.triggers import Trigger, Triggers, drain_query, listen, wait_until
from cutover.clock import Point
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.fold import finish_sql
from cutover.settings import Settings
from cutover.streaming import driver

COLUMNS = "window_start, window_end, k, n, total, worst, ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Triggers of one run, and the end of its last micro-batch."""

    triggers: list[Trigger]
    ended: float  # Unix seconds
    planned: float | None = None  # start of the driver's first epoch, as Spark may not report a drain's only trigger

    @property
    def seconds(self) -> float:
        """Seconds from the start of the first trigger to the end of the last micro-batch."""
        began = self.planned if self.planned is not None and not self.triggers else self.triggers[0].began
        return self.ended - began


@dataclass(slots=True)
class CommitTimes:
    """Probe of the driver that records when the first epoch was planned and each was committed."""

    at: list[float] = field(default_factory=list)
    planned: float | None = None

    def __call__(self, point: Point, epoch: int) -> None:
        """Record the time of a point of an epoch."""
        if point == "epoch.planned" and self.planned is None:
            self.planned = time.time()
        if point == "epoch.committed" and epoch >= 0:
            self.at.append(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Variants of a streaming job over one topic."""

    bench: Bench
    pipeline: Pipeline
    rows: int
    triggers: Triggers

    @property
    def variants(self) -> dict[str, Callable[[int], Run]]:
        """Function of the round's number that runs a variant, by its name."""
        return {"ours": self.ours, "noop": self.noop, "hand-written": self.spark_job}

    def ours(self, number: int) -> Run:
        """Drain the topic with the driver, in this process."""
        settings, pipeline = self.settings, self.for_round(number)
        committed = CommitTimes()
        driver.run_driver(PipelineLake(settings, pipeline), until="drain", probe=committed)
        # The driver ends as soon as the last epoch is committed, before Spark may have reported its trigger.
        name = f"cutover-{pipeline.name}-"
        wait_until(lambda: len(self.triggers.list_for(name)) >= len(committed.at) - 1, timeout=10)
        return Run(triggers=self.triggers.list_for(name), ended=committed.at[-1], planned=committed.planned)

    def noop(self, number: int) -> Run:
        """Compute the same aggregate of every micro-batch with a noop sink."""
        return self._drain(self.noop_query(f"noop-{self.pipeline.name}-{number}"))

    def spark_job(self, number: int) -> Run:
        """Aggregate with Spark's state store and merge every micro-batch into Delta."""
        return self._drain(self.spark_job_query(f"hand-{self.pipeline.name}-{number}"))

    def noop_query(self, name: str) -> StreamingQuery:
        """Start the query with the same aggregate and a noop sink."""
        return streaming_jobs.start_noop(
            self.bench.spark,
            bootstrap=bootstrap_servers(self.settings),
            pipeline=self.pipeline,
            checkpoint=self.peer_folder(name),
            name=name,
            dimensions=self.dimensions,
        )

    def spark_job_query(self, name: str) -> StreamingQuery:
        """Start the hand-written job."""
        return streaming_jobs.start_job(
            self.bench.spark,
            self.job,
            bootstrap=bootstrap_servers(self.settings),
            topic=self.pipeline.source.name,
            cap=self.pipeline.max_rows_per_epoch,
            checkpoint=self.peer_folder(name),
            table=self.peer_folder(f"{name}-table"),
            name=name,
        )

    @property
    def job(self) -> streaming_jobs.Job:
        """Computation of the hand-written job."""
        return streaming_jobs.EVENTS_JOB

    @property
    def dimensions(self) -> Dimensions:
        """Dimensions for the lookups of the noop query."""
        return NO_DIMENSIONS

    def _drain(self, query: StreamingQuery) -> Run:
        triggers = drain_query(query, self.triggers, self.rows)
        return Run(triggers=triggers, ended=triggers[-1].ended)

    @property
    def settings(self) -> Settings:
        """Settings of the driver; with a backlog it does not pause between micro-batches."""
        return self.bench.settings

    def peer_folder(self, name: str) -> Path:
        """Return the folder of a peer."""
        return self.bench.settings.home / "peers" / name

    def check(self, number: int) -> tuple[str, ...]:
        """Compare the results of the variants in a round.

        Raises:
            AssertionError: They differ.
        """
        rows, event_count = self.compare_tables(number, COLUMNS, summed="n")
        read = sum(t.rows for t in self.triggers.list_for(f"noop-{self.pipeline.name}-{number}"))
        if event_count != self.rows or read != self.rows:
            msg = f"Streams of round {number}: {event_count} and {read} of {self.rows} events."
            raise AssertionError(msg)
        return (
            f"our fold and the hand-written table: {rows:,} (window, key) rows, all measures; {event_count:,} events",
            f"the noop sink read {read:,} events",
        )

    def compare_tables(self, number: int, columns: str, *, summed: str) -> tuple[int, int]:
        """Compare our fold of a round with the hand-written table.

        Returns:
            The number of rows, and the sum of the column `summed`.

        Raises:
            AssertionError: They differ.
        """
        with queries.open_duckdb() as connection:
            connection.register("ours", self.fold_round(number, columns))
            delta.relation(connection, "theirs", str(self.peer_folder(f"hand-{self.pipeline.name}-{number}-table")))
            query = f"""
                SELECT (SELECT count(*) FROM (SELECT {columns} FROM ours EXCEPT ALL SELECT {columns} FROM theirs)),
                       (SELECT count(*) FROM (SELECT {columns} FROM theirs EXCEPT ALL SELECT {columns} FROM ours)),
                       (SELECT count(*) FROM ours), (SELECT sum({summed})::BIGINT FROM ours)
            """
            only_ours, only_native, rows, total = connection.execute(query).fetchall()[0]
        if only_ours or only_native:
            msg = f"`{self.pipeline.name}`, round {number}: {only_ours} and {only_native} of {rows} rows differ."
            raise AssertionError(msg)
        return int(rows), int(total)

    def fold_round(self, number: int, columns: str) -> pa.Table:
        """Fold the epoch log of a round, including late rows."""
        pipeline = self.for_round(number)
        version = versions.find_current_version(PipelineLake(self.settings, pipeline))
        if version is None:
            msg = f"Stream `{pipeline.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        with queries.open_duckdb() as connection:
            log = EpochLog(version.uri)
            latest = log.newest()
            log.relation(connection, "log", epoch=-1 if latest is None else latest.epoch)
            folded = finish_sql(pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
            return queries.query_table(connection, f"SELECT {columns} FROM ({folded})")

    def for_round(self, number: int) -> Pipeline:
        """Rename the definition for a round, so that each round has a separate version."""
        return replace(self.pipeline, name=f"{self.pipeline.name}_{number}")


def make_streams(bench: Bench, name: str, *, rows: int, cap: int) -> Streams:
    """Fill a topic and make the variants over it."""
    pipeline = events.define(bench.settings, name, cap=cap)
    return make_streams_over(bench, pipeline, rows=events.fill(bench.settings, name, events.generate_events(rows)))


def make_streams_over(bench: Bench, pipeline: Pipeline, *, rows: int) -> Streams:
    """Make the variants over a filled topic of `rows` records."""
    triggers = bench.once("triggers", lambda: listen(bench.spark))
    return Streams(bench=bench, pipeline=pipeline, rows=rows, triggers=triggers)

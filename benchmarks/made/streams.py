"""One run of each streaming variant over the same topic, each from the log's beginning into a place of its own."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.triggers import Trigger, Triggers, drained, listening, until
from benchmarks.peers import native, native_merge, noop
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.log.address import bootstrap_servers
from cutover.probe import Point
from cutover.records.classes import Class
from cutover.records.enrich import NO_DIMENSIONS, Dimensions
from cutover.records.fold import finish_sql
from cutover.settings import Settings
from cutover.streaming import driver

COLUMNS = "window_start, window_end, k, n, total, worst, ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What Spark said of one run, and when its last micro-batch was done with (Unix seconds)."""

    triggers: list[Trigger]
    ended: float
    planned: float | None = None  # of the driver's first epoch: Spark may never report the only trigger of a drain

    @property
    def seconds(self) -> float:
        """Return the time from the first trigger's start to the end of the last micro-batch."""
        began = self.planned if self.planned is not None and not self.triggers else self.triggers[0].began
        return self.ended - began


@dataclass(slots=True)
class _Committed:
    """Notes when the first epoch was planned and when each was committed; a probe of the driver."""

    at: list[float] = field(default_factory=list)
    planned: float | None = None

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "epoch.planned" and self.planned is None:
            self.planned = time.time()
        if point == "epoch.committed" and epoch >= 0:
            self.at.append(time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The variants over one topic."""

    bench: Bench
    pipeline: Pipeline
    rows: int
    triggers: Triggers

    @property
    def variants(self) -> dict[str, Callable[[int], Run]]:
        """Return name to a function of the round's number."""
        return {"ours": self.ours, "noop": self.noop, "hand-written": self.hand_written}

    def ours(self, number: int) -> Run:
        """Drain the topic by the driver as it is, in this process."""
        settings, pipeline = self.settings, self.renamed(number)
        committed = _Committed()
        driver.run(settings, pipeline, until="drain", probe=committed)
        # The driver ends as soon as the last epoch is committed: Spark may not report that trigger any more.
        name = f"cutover-{pipeline.name}-"
        until(lambda: len(self.triggers.of(name)) >= len(committed.at) - 1, within=10)
        return Run(triggers=self.triggers.of(name), ended=committed.at[-1], planned=committed.planned)

    def noop(self, number: int) -> Run:
        """Throw the same aggregate of every micro-batch away."""
        return self._drained(self.noop_query(f"noop-{self.pipeline.name}-{number}"))

    def hand_written(self, number: int) -> Run:
        """Aggregate by Spark's own state and merge every micro-batch into Delta."""
        return self._drained(self.hand_written_query(f"hand-{self.pipeline.name}-{number}"))

    def noop_query(self, name: str) -> StreamingQuery:
        """Start the same aggregate, of which every micro-batch is thrown away."""
        return noop.start(
            self.bench.spark,
            bootstrap=bootstrap_servers(self.settings),
            pipeline=self.pipeline,
            checkpoint=self.place(name),
            name=name,
            dimensions=self.dimensions,
        )

    def hand_written_query(self, name: str) -> StreamingQuery:
        """Start the job that one would write by hand."""
        return native.start(
            self.bench.spark,
            self.job,
            bootstrap=bootstrap_servers(self.settings),
            topic=self.pipeline.source.name,
            cap=self.pipeline.max_rows_per_epoch,
            checkpoint=self.place(name),
            table=self.place(f"{name}-table"),
            name=name,
        )

    @property
    def job(self) -> native.Job:
        """Return what the hand-written job computes."""
        return native_merge.JOB

    @property
    def dimensions(self) -> Dimensions:
        """Return what the noop query's lookups take their columns from."""
        return NO_DIMENSIONS

    def _drained(self, query: StreamingQuery) -> Run:
        found = drained(query, self.triggers, self.rows)
        return Run(triggers=found, ended=found[-1].ended)

    @property
    def settings(self) -> Settings:
        """Return the driver's settings, as they are: with a backlog it makes no pause between micro-batches."""
        return self.bench.settings

    def place(self, name: str) -> Path:
        """Return a folder of a peer's own."""
        return self.bench.settings.home / "peers" / name

    def check(self, number: int) -> tuple[str, ...]:
        """Compare what the variants left behind in a round.

        Raises:
            AssertionError: They differ.
        """
        rows, counted = self.compared(number, COLUMNS, of="n")
        read = sum(t.rows for t in self.triggers.of(f"noop-{self.pipeline.name}-{number}"))
        if counted != self.rows or read != self.rows:
            msg = f"Streams of round {number}: {counted} and {read} of {self.rows} events."
            raise AssertionError(msg)
        return (
            f"our fold and the hand-written table: {rows:,} (window, key) rows, all measures; {counted:,} events",
            f"the noop sink read {read:,} events",
        )

    def compared(self, number: int, columns: str, *, of: str) -> tuple[int, int]:
        """Compare our fold of a round with the hand-written table.

        Returns:
            Their rows, and what the column `of` adds up to.

        Raises:
            AssertionError: They differ.
        """
        with queries.connect() as connection:
            connection.register("ours", self.folded(number, columns))
            delta.relation(connection, "theirs", str(self.place(f"hand-{self.pipeline.name}-{number}-table")))
            query = f"""
                SELECT (SELECT count(*) FROM (SELECT {columns} FROM ours EXCEPT ALL SELECT {columns} FROM theirs)),
                       (SELECT count(*) FROM (SELECT {columns} FROM theirs EXCEPT ALL SELECT {columns} FROM ours)),
                       (SELECT count(*) FROM ours), (SELECT sum({of})::BIGINT FROM ours)
            """
            here, there, rows, total = connection.execute(query).fetchall()[0]
        if here or there:
            msg = f"`{self.pipeline.name}`, round {number}: {here} and {there} of {rows} rows differ."
            raise AssertionError(msg)
        return int(rows), int(total)

    def folded(self, number: int, columns: str) -> pa.Table:
        """Return what our epoch log of a round adds up to, late rows included."""
        pipeline = self.renamed(number)
        version = versions.current(self.settings, pipeline)
        if version is None:
            msg = f"Stream `{pipeline.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        with queries.connect() as connection:
            log = EpochLog(version.uri)
            newest = log.newest()
            log.relation(connection, "log", epoch=-1 if newest is None else newest.epoch)
            folded = finish_sql(pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
            return queries.read_table(connection, f"SELECT {columns} FROM ({folded})")

    def renamed(self, number: int) -> Pipeline:
        """Return the definition of a round: each has a version of its own."""
        return replace(self.pipeline, name=f"{self.pipeline.name}_{number}")


def streams(bench: Bench, name: str, *, rows: int, cap: int) -> Streams:
    """Fill a topic and return the variants over it."""
    pipeline = events.define(bench.settings, name, cap=cap)
    return streams_of(bench, pipeline, sent=events.fill(bench.settings, name, events.stream_of(rows)))


def streams_of(bench: Bench, pipeline: Pipeline, *, sent: int) -> Streams:
    """Return the variants over a topic that holds so many records."""
    triggers = bench.once("triggers", lambda: listening(bench.spark))
    return Streams(bench=bench, pipeline=pipeline, rows=sent, triggers=triggers)

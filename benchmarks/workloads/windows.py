"""Streaming path over one kind of windows, from the first record to the folded result, and a hand-written batch job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
from pyspark.sql import Column

from benchmarks.bench import BACKLOG_NOTE, Bench
from benchmarks.peers import batch_jobs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import events
from benchmarks.workloads.streams import Streams
from benchmarks.workloads.triggers import listen
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import literal
from cutover.records.classes import Class
from cutover.records.fold import finish_sql

TIMES = 10
COLUMNS = "epoch_us(window_start), epoch_us(window_end), k, n, total, worst, ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKind:
    """Kind of windows that a figure compares, and its events."""

    name: str  # of the figure
    title: str
    window: str  # source text in the definition
    spark_window: Callable[[], Column]
    generate: Callable[[int], Iterator[tuple[int, bytes]]]  # events of a given number
    events: int
    cap: int  # maximum records per epoch
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledTopic:
    """Filled topic, and both variants over it."""

    bench: Bench
    kind: WindowKind
    pipeline: Pipeline
    rows: int

    def ours(self, number: int) -> float:
        """Drain the topic with the driver, then fold the result.

        Returns:
            Sum of the seconds from the first trigger to the last commit, and of the fold.
        """
        triggers = self.bench.once("triggers", lambda: listen(self.bench.spark))
        stream = Streams(bench=self.bench, pipeline=self.pipeline, rows=self.rows, triggers=triggers)
        return stream.ours(number).seconds + time_call(lambda: self._fold(number))

    def spark_job(self, _: int) -> float:
        """Run the hand-written batch job over the same topic; return the seconds."""
        spark, address = self.bench.spark, bootstrap_servers(self.bench.settings)
        topic, window = self.pipeline.source.name, self.kind.spark_window()
        return time_call(
            lambda: batch_jobs.aggregate_windows(
                spark, bootstrap=address, topic=topic, window=window, into=self._peer_folder
            )
        )

    def check(self, number: int) -> str:
        """Compare both results.

        Raises:
            AssertionError: They differ.
        """
        with queries.open_duckdb() as connection:
            self._bind(connection, number)
            native_rows = f"SELECT * FROM read_parquet({literal(f'{self._peer_folder}/*.parquet')})"
            both = f"ours AS (SELECT {COLUMNS} FROM answer), theirs AS (SELECT {COLUMNS} FROM ({native_rows}))"
            query = f"""
                WITH {both} SELECT (SELECT count(*) FROM (FROM ours EXCEPT ALL FROM theirs)),
                    (SELECT count(*) FROM (FROM theirs EXCEPT ALL FROM ours)), (SELECT count(*) FROM ours)
            """
            only_ours, only_native, rows = connection.execute(query).fetchall()[0]
        if only_ours or only_native:
            msg = f"{self.kind.title}: {only_ours} and {only_native} of {rows} rows differ from the hand-written batch."
            raise AssertionError(msg)
        return f"our fold and the hand-written batch: {rows:,} (window, key) rows of {self.rows:,} events"

    def _fold(self, number: int) -> None:
        with queries.open_duckdb() as connection:
            self._bind(connection, number)

    def _bind(self, connection: duckdb.DuckDBPyConnection, number: int) -> None:
        pipeline = self._for_round(number)
        version = versions.find_current_version(PipelineLake(self.bench.settings, pipeline))
        if version is None:
            msg = f"Stream `{pipeline.name}`: expected an epoch log, found none."
            raise AssertionError(msg)
        log = EpochLog(version.uri)
        latest = log.newest()
        log.relation(connection, "log", epoch=-1 if latest is None else latest.epoch)
        folded = finish_sql(pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
        connection.execute(f"CREATE TEMP TABLE answer AS {folded}")

    @property
    def _peer_folder(self) -> Path:
        return self.bench.settings.home / "peers" / self.pipeline.name

    def _for_round(self, number: int) -> Pipeline:
        return replace(self.pipeline, name=f"{self.pipeline.name}_{number}")


def measure(bench: Bench, kind: WindowKind) -> Figure:
    """Measure the seconds of both at full size, and of Cutover at a tenth of it, by rounds."""
    bench = bench.for_backlog()
    large = bench.sized(kind.events, least=TIMES)
    topics = {size: _fill_topic(bench, kind, size) for size in (large // TIMES, large)}
    small, full = topics.values()
    variants = {"ours": full.ours, "hand-written": full.spark_job, "ours, a tenth": small.ours}
    samples = measure_interleaved(variants, bench.rounds)
    small.spark_job(0)
    return Figure(
        name=kind.name,
        title=kind.title,
        values=(
            ratio(f"{kind.name}_hand_written", samples["ours"], samples["hand-written"]),
            ratio(f"{kind.name}_growth", samples["ours"], samples["ours, a tenth"]),
        ),
        sizes={"events": full.rows, "cap": full.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(full.check(bench.rounds), small.check(bench.rounds)),
        notes=(*kind.notes, BACKLOG_NOTE),
        full=full.rows >= kind.events,
    )


def _fill_topic(bench: Bench, kind: WindowKind, size: int) -> FilledTopic:
    name = f"{kind.name}_{size}"
    cap = min(kind.cap, size // 2)  # at least two epochs
    pipeline = events.define(bench.settings, name, cap=cap, out_of_orderness="1 day", window=kind.window)
    rows = events.fill(bench.settings, name, kind.generate(size))
    return FilledTopic(bench=bench, kind=kind, pipeline=pipeline, rows=rows)

"""Windowed join of two topics, drained by the driver and read once, compared with a minimal Spark batch join."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.bench import BACKLOG_NOTE, Bench
from benchmarks.peers import batch_jobs
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import events
from cutover.clock import Point
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.serving import views
from cutover.log.options import bootstrap_servers
from cutover.pipeline_lake import PipelineLake
from cutover.streaming import driver

ROWS = 500_000  # of each side
TIMES = 10
KEYS = 10_000
ROWS_PER_WINDOW = 25_000  # of a side, in 10 s: 2.5 per key, so about six pairs

_DEFINITION = '''"""What the benchmark `{name}` computes."""

from cutover.definition import Count, Fixed, Join, Lateness, Max, Pipeline, Sum, Topic

{name} = Pipeline(
    name="{name}",
    source=Topic(name="{name}", schema="{schema}", event_time="at", time_format="millis"),
    join=Join(
        right=Topic(name="{name}_right", schema="{schema}", event_time="at", time_format="millis"),
        on={{"k": "k"}},
        prefix="c_",
    ),
    key=("k",),
    window=Fixed(seconds=10),
    measures={{"n": Count(), "worth": Sum("c_v"), "worst": Max("v"), "apart": Sum("c_v - v")}},
    lateness=Lateness(out_of_orderness="1 hour", allowed="0 seconds", max_ahead="3650 days"),
    max_rows_per_epoch=500_000,
)
'''


def measure_join(bench: Bench) -> Figure:
    """Measure the seconds of both at the full size, and of Cutover at a tenth, by rounds."""
    bench = bench.for_backlog()
    large = JoinedTopics.fill(bench, "joined", bench.sized(ROWS, least=TIMES))
    small = JoinedTopics.fill(bench, "joined_tenth", max(1, large.rows // TIMES))
    samples = measure_interleaved(
        {"ours": large.ours, "hand-written": large.spark_job, "ours, a tenth": small.ours}, bench.rounds
    )
    return Figure(
        name="join",
        title="Windowed join of two topics",
        values=(
            ratio("join_hand_written", samples["ours"], samples["hand-written"]),
            ratio("growth_join", samples["ours"], samples["ours, a tenth"]),
        ),
        sizes={"rows_a_side": large.rows, "rows_a_side_of_a_tenth": small.rows, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=(large.check(bench.rounds),),
        notes=(
            (
                "Ours: a driver drains both topics, from planning the first epoch to the last commit, and one reader "
                "computes the pairs."
            ),
            "Hand-written: one Spark batch job to a noop sink, from_json without checks, in a warm session.",
            BACKLOG_NOTE,
        ),
        full=large.rows >= ROWS,
    )


@dataclass(slots=True)
class _Span:
    """Probe of the driver that records when the first epoch was planned and the last one committed."""

    began: float | None = None
    ended: float = 0.0

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "epoch.planned" and self.began is None and epoch >= 0:
            self.began = time.perf_counter()
        if point == "epoch.committed":
            self.ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds between both."""
        return self.ended - (self.began or self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTopics:
    """Two filled topics, and the variants of the join over them."""

    bench: Bench
    pipeline: Pipeline
    rows: int  # of each side

    @classmethod
    def fill(cls, bench: Bench, name: str, rows: int) -> "JoinedTopics":
        """Write the definition and fill both topics."""
        folder = Path(bench.settings.pipelines)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(_DEFINITION.format(name=name, schema=events.SCHEMA), encoding="utf-8")
        for topic, seed in ((name, 1), (f"{name}_right", 3)):
            events.fill(bench.settings, topic, _generate_side(rows, seed))
        return cls(bench=bench, pipeline=catalogue.get(bench.settings, name), rows=rows)

    def ours(self, number: int) -> float:
        """Drain both topics with the driver, then read the result once; return the seconds."""
        span = _Span()
        pipeline = replace(self.pipeline, name=f"{self.pipeline.name}_{number}")
        driver.run_driver(PipelineLake(self.bench.settings, pipeline), until="drain", probe=span)
        return span.seconds + time_call(lambda: self.read(number))

    def read(self, number: int) -> pa.Table:
        """Read the result of a round."""
        pipeline = replace(self.pipeline, name=f"{self.pipeline.name}_{number}")
        with views.open_views(PipelineLake(self.bench.settings, pipeline)) as connection:
            query = "SELECT window_start, k, n, worth, worst, apart FROM streaming WHERE n > 0"
            return queries.query_table(connection, query)

    def spark_job(self, _: int) -> float:
        """Join in Spark with a noop sink; return the seconds."""
        return time_call(lambda: self._spark_join().write.format("noop").mode("overwrite").save())

    def _spark_join(self) -> DataFrame:
        left_topic, address = self.pipeline.source.name, bootstrap_servers(self.bench.settings)
        return batch_jobs.joined(
            self.bench.spark, bootstrap=address, left_topic=left_topic, right_topic=f"{left_topic}_right"
        )

    def check(self, number: int) -> str:
        """Compare both results of a round.

        Raises:
            AssertionError: They differ.
        """
        with queries.open_duckdb() as connection:
            connection.register("ours", self.read(number))
            connection.register("theirs", self._spark_join().toArrow())
            query = """
                SELECT (SELECT count(*) FROM (SELECT * FROM ours EXCEPT ALL SELECT * FROM theirs)),
                       (SELECT count(*) FROM (SELECT * FROM theirs EXCEPT ALL SELECT * FROM ours)),
                       (SELECT count(*) FROM ours), (SELECT sum(n)::BIGINT FROM ours)
            """
            only_ours, only_native, rows, pairs = connection.execute(query).fetchall()[0]
        if only_ours or only_native or not rows:
            msg = f"Join of round {number}: {only_ours} and {only_native} of {rows} rows differ."
            raise AssertionError(msg)
        return f"our pairs and the hand-written join's: {rows:,} (window, key) rows, all measures; {pairs:,} pairs"


def _generate_side(rows: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of the rows of a side, with all keys in turn."""
    for number in range(rows):
        at = events.START_MILLIS + number * 10_000 // ROWS_PER_WINDOW
        key = number * (2 * seed + 1) % KEYS
        yield at, events.encode_event(number, key, number * seed % 997, at)

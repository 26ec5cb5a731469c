"""A windowed join of two topics, drained by the driver and read once, beside a minimal Spark batch join of it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.bench import BACKLOG_NOTE, Bench
from benchmarks.made import events
from benchmarks.peers import batch_join
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.serving import views
from cutover.log.address import bootstrap_servers
from cutover.probe import Point
from cutover.streaming import driver

ROWS = 500_000  # of each side
TIMES = 10
KEYS = 10_000
EACH = 25_000  # rows of a side in a window of 10 s: 2.5 a key, so about six pairs

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


def measure(bench: Bench) -> Figure:
    """Return the seconds of both at the full size, and of ours at a tenth, by rounds."""
    bench = bench.of_backlog()
    large = Joined.made(bench, "joined", bench.sized(ROWS, least=TIMES))
    small = Joined.made(bench, "joined_tenth", max(1, large.rows // TIMES))
    samples = interleaved(
        {"ours": large.ours, "hand-written": large.hand_written, "ours, a tenth": small.ours}, bench.rounds
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
    """Notes when the first epoch was planned and the last one committed; a probe of the driver."""

    began: float | None = None
    ended: float = 0.0

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "epoch.planned" and self.began is None and epoch >= 0:
            self.began = time.perf_counter()
        if point == "epoch.committed":
            self.ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the time between both."""
        return self.ended - (self.began or self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Both topics, filled, and the variants over them."""

    bench: Bench
    pipeline: Pipeline
    rows: int  # of each side

    @classmethod
    def made(cls, bench: Bench, name: str, rows: int) -> "Joined":
        """Write the definition and fill both topics."""
        folder = Path(bench.settings.pipelines)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(_DEFINITION.format(name=name, schema=events.SCHEMA), encoding="utf-8")
        for topic, seed in ((name, 1), (f"{name}_right", 3)):
            events.fill(bench.settings, topic, _side(rows, seed))
        return cls(bench=bench, pipeline=catalogue.get(bench.settings, name), rows=rows)

    def ours(self, number: int) -> float:
        """Drain both topics by the driver as it is, then read the result once."""
        span = _Span()
        pipeline = replace(self.pipeline, name=f"{self.pipeline.name}_{number}")
        driver.run(self.bench.settings, pipeline, until="drain", probe=span)
        return span.seconds + seconds(lambda: self.read(number))

    def read(self, number: int) -> pa.Table:
        """Return the result of a round."""
        pipeline = replace(self.pipeline, name=f"{self.pipeline.name}_{number}")
        with views.connect(self.bench.settings, pipeline) as connection:
            found = "SELECT window_start, k, n, worth, worst, apart FROM streaming WHERE n > 0"
            return queries.read_table(connection, found)

    def hand_written(self, _: int) -> float:
        """Join by Spark and throw the result away."""
        return seconds(lambda: self._by_spark().write.format("noop").mode("overwrite").save())

    def _by_spark(self) -> DataFrame:
        left, address = self.pipeline.source.name, bootstrap_servers(self.bench.settings)
        return batch_join.joined(self.bench.spark, bootstrap=address, left=left, right=f"{left}_right")

    def check(self, number: int) -> str:
        """Compare both results of a round.

        Raises:
            AssertionError: They differ.
        """
        with queries.connect() as connection:
            connection.register("ours", self.read(number))
            connection.register("theirs", self._by_spark().toArrow())
            query = """
                SELECT (SELECT count(*) FROM (SELECT * FROM ours EXCEPT ALL SELECT * FROM theirs)),
                       (SELECT count(*) FROM (SELECT * FROM theirs EXCEPT ALL SELECT * FROM ours)),
                       (SELECT count(*) FROM ours), (SELECT sum(n)::BIGINT FROM ours)
            """
            here, there, rows, pairs = connection.execute(query).fetchall()[0]
        if here or there or not rows:
            msg = f"Join of round {number}: {here} and {there} of {rows} rows differ."
            raise AssertionError(msg)
        return f"our pairs and the hand-written join's: {rows:,} (window, key) rows, all measures; {pairs:,} pairs"


def _side(rows: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of the rows of a side: each key as often as the others, in turn."""
    for number in range(rows):
        at = events.START_MILLIS + number * 10_000 // EACH
        key = number * (2 * seed + 1) % KEYS
        yield at, events.encoded(number, key, number * seed % 997, at)

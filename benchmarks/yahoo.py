"""The Yahoo Streaming Benchmark: the sample's definition, ads and events, and the same three variants as elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import events
from benchmarks.bench import Bench
from benchmarks.peers import native_yahoo, noop
from benchmarks.streams import Run, Streams
from benchmarks.triggers import drained, listening
from cutover.definition import catalogue
from cutover.definition.pipeline import Pipeline
from cutover.lake import dimension_frames, dimension_load, dimensions, tables
from cutover.log.kafka import bootstrap_servers
from cutover.settings import Settings
from samples import ad_views

SEED = 7
DEFINITION = Path(ad_views.__file__).parents[1] / "pipelines" / "ad_views.py"
COLUMNS = "window_start, window_end, campaign_id, views"


def define(settings: Settings, name: str, *, cap: int) -> Pipeline:
    """Return the sample's definition over a topic of its own, and load its ads."""
    (sample,) = catalogue.load_file(DEFINITION)
    file = settings.home / "ads.csv"
    if not file.is_file():
        file.write_text(ad_views.ads_csv(SEED), encoding="utf-8")
        dimension_load.load(settings, "ads", file, key=["ad_id"])
    return replace(
        sample,
        name=name,
        source=replace(sample.source, name=name),
        lateness=replace(sample.lateness, allowed="0 seconds"),  # what is late there is late here
        max_rows_per_epoch=cap,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Yahoo(Streams):
    """The variants over one topic of ad events."""

    @property
    def ads(self) -> str:
        """Return where the dimension lies."""
        return dimensions.own_uri(self.settings, "ads")

    def noop_query(self, name: str) -> StreamingQuery:
        """Start the same aggregate, of which every micro-batch is thrown away."""
        ads = dimensions.opened(self.settings, self.pipeline, "ads")
        frame = dimension_frames.one(self.bench.spark, ads, broadcast_rows=ads.size)
        return noop.start(
            self.bench.spark,
            bootstrap=bootstrap_servers(self.settings),
            pipeline=self.pipeline,
            checkpoint=self.place(name),
            name=name,
            dimensions={"ads": frame},
        )

    def hand_written_query(self, name: str) -> StreamingQuery:
        """Start the job that one would write by hand."""
        return native_yahoo.start(
            self.bench.spark,
            bootstrap=bootstrap_servers(self.settings),
            topic=self.pipeline.source.name,
            ads=self.ads,
            cap=self.pipeline.max_rows_per_epoch,
            checkpoint=self.place(name),
            table=self.place(f"{name}-table"),
            name=name,
        )

    def noop(self, number: int) -> Run:
        """Throw the same aggregate of every micro-batch away."""
        found = drained(self.noop_query(f"noop-{self.pipeline.name}-{number}"), self.triggers, self.rows)
        return Run(triggers=found, ended=found[-1].ended)

    def hand_written(self, number: int) -> Run:
        """Join, aggregate by Spark's own state and merge every micro-batch into Delta."""
        found = drained(self.hand_written_query(f"hand-{self.pipeline.name}-{number}"), self.triggers, self.rows)
        return Run(triggers=found, ended=found[-1].ended)

    def check(self, number: int) -> tuple[str, ...]:
        """Compare what the variants left behind in a round with one another and with what was sent.

        Raises:
            AssertionError: They differ.
        """
        with tables.connect() as connection:
            connection.register("ours", self.folded(number, COLUMNS))
            tables.relation(connection, "theirs", str(self.place(f"hand-{self.pipeline.name}-{number}-table")))
            query = f"""
                SELECT (SELECT count(*) FROM (SELECT {COLUMNS} FROM ours EXCEPT ALL SELECT {COLUMNS} FROM theirs)),
                       (SELECT count(*) FROM (SELECT {COLUMNS} FROM theirs EXCEPT ALL SELECT {COLUMNS} FROM ours)),
                       (SELECT count(*) FROM ours), (SELECT sum(views)::BIGINT FROM ours)
            """
            here, there, rows, views = connection.execute(query).fetchall()[0]
        sent = sum(b'"event_type":"view"' in value for _, value in stream_of(self.rows))
        read = sum(t.rows for t in self.triggers.of(f"noop-{self.pipeline.name}-{number}"))
        if here or there or views != sent or read != self.rows:
            msg = f"Yahoo, round {number}: {here} and {there} of {rows} rows differ, {views} of {sent} views, {read} "
            msg += "events read."
            raise AssertionError(msg)
        return (
            f"our fold and the hand-written table: {rows:,} (window, campaign) rows; {views:,} views as they were sent",
            f"the noop sink read {read:,} events",
        )


def stream_of(count: int) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of so many events."""
    return ad_views.stream_of(count, seed=SEED)


def filled(bench: Bench, name: str, *, rows: int, cap: int) -> Yahoo:
    """Fill a topic and return the variants over it."""
    pipeline = define(bench.settings, name, cap=cap)
    sent = events.fill(bench.settings, name, stream_of(rows))
    triggers = bench.once("triggers", lambda: listening(bench.spark))
    return Yahoo(bench=bench, pipeline=pipeline, rows=sent, triggers=triggers)

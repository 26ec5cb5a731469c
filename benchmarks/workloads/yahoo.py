"""Yahoo Streaming Benchmark: definition, ads and events of the sample, and the three variants of `streams`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.peers import streaming_jobs
from benchmarks.workloads import events
from benchmarks.workloads.streams import Streams
from benchmarks.workloads.triggers import listen
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.dimensions import dimension, joined_versions, load
from cutover.pipeline_lake import PipelineLake
from cutover.records.enrich import Dimensions
from cutover.samples import ad_views
from cutover.settings import Settings

SEED = 7
DEFINITION = Path(ad_views.__file__).resolve().parents[1] / "pipelines" / "ad_views.py"
COLUMNS = "window_start, window_end, campaign_id, views"


def define(settings: Settings, name: str, *, cap: int) -> Pipeline:
    """Make the sample's definition for another topic, and load its ads."""
    (sample,) = catalogue.load_file(DEFINITION)
    file = settings.home / "ads.csv"
    if not file.is_file():
        file.write_text(ad_views.ads_csv(SEED), encoding="utf-8")
        load.load_dimension(settings, "ads", file, key=["ad_id"])
    return replace(
        sample,
        name=name,
        source=replace(sample.source, name=name),
        lateness=replace(sample.lateness, allowed="0 seconds"),  # so that the same events are late in both
        max_rows_per_epoch=cap,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Yahoo(Streams):
    """Variants over one topic of ad events."""

    @property
    def job(self) -> streaming_jobs.Job:
        """Views by campaign, with the current ads."""
        return streaming_jobs.make_views_job(
            self.bench.spark.read.format("delta").load(dimension.own_uri(self.settings, "ads"))
        )

    @property
    def dimensions(self) -> Dimensions:
        """Dimension of the ads."""
        ads = dimension.open_dimension(PipelineLake(self.settings, self.pipeline), "ads")
        return {"ads": joined_versions.join_version(self.bench.spark, ads, broadcast_rows=ads.size)}

    def check(self, number: int) -> tuple[str, ...]:
        """Compare the results of the variants in a round with each other and with the sent events.

        Raises:
            AssertionError: They differ.
        """
        rows, views = self.compare_tables(number, COLUMNS, summed="views")
        sent_views = sum(b'"event_type":"view"' in value for _, value in stream_of(self.rows))
        read = sum(t.rows for t in self.triggers.list_for(f"noop-{self.pipeline.name}-{number}"))
        if views != sent_views or read != self.rows:
            msg = f"Yahoo, round {number}: {views} of {sent_views} views, {read} of {self.rows} events read."
            raise AssertionError(msg)
        return (
            f"our fold and the hand-written table: {rows:,} (window, campaign) rows; {views:,} views as they were sent",
            f"the noop sink read {read:,} events",
        )


def stream_of(count: int) -> Iterator[tuple[int, bytes]]:
    """Yield log time (milliseconds) and value of `count` events."""
    return ad_views.stream_of(count, seed=SEED)


def fill_streams(bench: Bench, name: str, *, rows: int, cap: int) -> Yahoo:
    """Fill a topic and make the variants over it."""
    pipeline = define(bench.settings, name, cap=cap)
    event_count = events.fill(bench.settings, name, stream_of(rows))
    triggers = bench.once("triggers", lambda: listen(bench.spark))
    return Yahoo(bench=bench, pipeline=pipeline, rows=event_count, triggers=triggers)

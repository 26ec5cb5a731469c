"""The Yahoo Streaming Benchmark: the sample's definition, ads and events, and the same three variants as elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.streams import Streams
from benchmarks.made.triggers import listening
from benchmarks.peers import native, native_yahoo
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.dimensions import dimension, frames, load
from cutover.records.enrich import Dimensions
from cutover.samples import ad_views
from cutover.settings import Settings

SEED = 7
DEFINITION = Path(ad_views.__file__).resolve().parents[1] / "pipelines" / "ad_views.py"
COLUMNS = "window_start, window_end, campaign_id, views"


def define(settings: Settings, name: str, *, cap: int) -> Pipeline:
    """Return the sample's definition over a topic of its own, and load its ads."""
    (sample,) = catalogue.load_file(DEFINITION)
    file = settings.home / "ads.csv"
    if not file.is_file():
        file.write_text(ad_views.ads_csv(SEED), encoding="utf-8")
        load.load(settings, "ads", file, key=["ad_id"])
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
    def job(self) -> native.Job:
        """Return the views by campaign, of the ads as they are now."""
        return native_yahoo.job(self.bench.spark.read.format("delta").load(dimension.own_uri(self.settings, "ads")))

    @property
    def dimensions(self) -> Dimensions:
        """Return the ads."""
        ads = dimension.open_dimension(self.settings, self.pipeline, "ads")
        return {"ads": frames.join_version(self.bench.spark, ads, broadcast_rows=ads.size)}

    def check(self, number: int) -> tuple[str, ...]:
        """Compare what the variants left behind in a round with one another and with what was sent.

        Raises:
            AssertionError: They differ.
        """
        rows, views = self.compared(number, COLUMNS, of="views")
        sent = sum(b'"event_type":"view"' in value for _, value in stream_of(self.rows))
        read = sum(t.rows for t in self.triggers.of(f"noop-{self.pipeline.name}-{number}"))
        if views != sent or read != self.rows:
            msg = f"Yahoo, round {number}: {views} of {sent} views, {read} of {self.rows} events read."
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

"""Cost of a lookup in an epoch of 5,000 events: one pipeline without a lookup, and with dimensions of several sizes."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.bench import Bench
from benchmarks.figures.epochs.epoch import EPOCHS, EVENTS, WARM_UP
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import yahoo
from benchmarks.workloads.streams import Streams
from cutover.definition import Lookup
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.dimensions import dimension
from cutover.samples import ad_views
from cutover.settings import Settings

SIZES = (1_000, 100_000, 1_000_000)  # rows; the last one is beyond `dimensions.broadcast_rows`


def measure(bench: Bench) -> Figure:
    """Measure the median trigger time of an epoch, without a lookup and by the size of the dimension."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    streams = yahoo.fill_streams(bench, "lookup", rows=epochs * EVENTS, cap=EVENTS)
    plain = replace(streams.pipeline, lookups={}, where="event_type = 'view'", key=("ad_type",))
    variants = {"ours, no lookup": _make_timer(streams, replace(plain, name="lookup_none"))}
    for size in SIZES:
        _write_dimension(bench.settings, f"ads_{size}", size)
        lookup = Lookup(table=f"ads_{size}", on={"ad_id": "ad_id"}, columns={"campaign_id": "string"})
        pipeline = replace(plain, name=f"lookup_{size}", lookups={"ads": lookup})
        variants[f"ours, {size:,} rows"] = _make_timer(streams, pipeline)
    samples = measure_interleaved(variants, bench.rounds)
    none = samples["ours, no lookup"]
    return Figure(
        name="lookup",
        title="An epoch of 5,000 events with a lookup",
        values=(
            ratio("lookup_small", samples["ours, 1,000 rows"], none),
            ratio("lookup_large", samples["ours, 1,000,000 rows"], none),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        notes=(
            "A sample is the median `triggerExecution` of a round's epochs. A million rows are partitioned by key.",
        ),
        full=epochs >= EPOCHS,
    )


def _make_timer(streams: Streams, pipeline: Pipeline) -> Callable[[int], float]:
    variant = replace(streams, pipeline=pipeline)
    return lambda number: median(t.seconds for t in variant.ours(number).triggers[WARM_UP:])


def _write_dimension(settings: Settings, name: str, size: int) -> None:
    """Write a dimension with the ads of the events, filled up to its size with other ads."""
    world = ad_views.world(yahoo.SEED)
    ids = [*world.ads, *(f"other-{number}" for number in range(size - len(world.ads)))]
    campaigns = [world.campaign_of(number % len(world.ads)) for number in range(size)]
    write_deltalake(dimension.own_uri(settings, name), pa.table({"ad_id": ids, "campaign_id": campaigns}))

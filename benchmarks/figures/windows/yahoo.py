"""Yahoo Streaming Benchmark: throughput of reading a backlog, for the three variants of `catchup`."""

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import yahoo
from benchmarks.workloads.streams import Run

EVENTS = 200_000
CAP = 50_000  # records per micro-batch: the default of a definition, the same for all variants

NOTE = (
    "100 campaigns with 10 ads each: views by campaign and ten seconds, the ads looked up in a Delta table. "
    "The hand-written job parses the three fields that it needs, ours all seven, strictly."
)


def measure(bench: Bench) -> Figure:
    """Measure the throughput of each variant, by rounds."""
    streams = yahoo.fill_streams(bench, "yahoo", rows=bench.sized(EVENTS), cap=min(CAP, bench.sized(EVENTS) // 4))

    def rate(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: streams.rows / run(number).seconds

    samples = measure_interleaved({name: rate(run) for name, run in streams.variants.items()}, bench.rounds)
    return Figure(
        name="yahoo",
        title="Yahoo Streaming Benchmark: throughput",
        values=(
            ratio("yahoo_noop", samples["ours"], samples["noop"]),
            ratio("yahoo_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events": streams.rows, "cap": streams.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=streams.check(bench.rounds),
        notes=(NOTE,),
        full=streams.rows >= EVENTS,
    )

"""The Yahoo Streaming Benchmark: how fast a backlog is read, by the three variants of `catchup`."""

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.made import yahoo
from benchmarks.made.streams import Run
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, ratio

EVENTS = 200_000
CAP = 50_000  # records a micro-batch: the default of a definition, the same for every variant

NOTE = (
    "100 campaigns with 10 ads each: views by campaign and ten seconds, the ads looked up in a Delta table. "
    "The hand-written job parses the three fields that it needs, ours all seven, strictly."
)


def measure(bench: Bench) -> Figure:
    """Return the throughput of each variant, by rounds."""
    made = yahoo.filled(bench, "yahoo", rows=bench.sized(EVENTS), cap=min(CAP, bench.sized(EVENTS) // 4))

    def rate(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: made.rows / run(number).seconds

    samples = interleaved({name: rate(run) for name, run in made.variants.items()}, bench.rounds)
    return Figure(
        name="yahoo",
        title="Yahoo Streaming Benchmark: throughput",
        values=(
            ratio("yahoo_noop", samples["ours"], samples["noop"]),
            ratio("yahoo_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events": made.rows, "cap": made.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=made.check(bench.rounds),
        notes=(NOTE,),
        full=made.rows >= EVENTS,
    )

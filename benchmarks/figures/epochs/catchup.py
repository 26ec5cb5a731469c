"""Throughput of reading a backlog: events per second from the first trigger to the end of the last micro-batch."""

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads.streams import Run, make_streams

EVENTS = 1_000_000
CAP = 50_000  # records per micro-batch: the default of a definition, the same for all variants


def measure_catchup(bench: Bench) -> Figure:
    """Measure the throughput of each variant, by rounds."""
    streams = make_streams(bench, "catchup", rows=bench.sized(EVENTS), cap=min(CAP, bench.sized(EVENTS) // 4))

    def rate(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: streams.rows / run(number).seconds

    samples = measure_interleaved({name: rate(run) for name, run in streams.variants.items()}, bench.rounds)
    return Figure(
        name="catchup",
        title="Catch-up throughput",
        values=(
            ratio("catchup_noop", samples["ours"], samples["noop"]),
            ratio("catchup_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events": streams.rows, "cap": streams.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=streams.check(bench.rounds),
        notes=("All read at most 50,000 records per micro-batch, the default of a definition.",),
        full=streams.rows >= EVENTS,
    )

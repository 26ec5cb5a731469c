"""How fast a backlog is read: events a second from the first trigger's start to the last micro-batch's end."""

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.made.streams import Run, streams
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, ratio

EVENTS = 1_000_000
CAP = 50_000  # records a micro-batch: the default of a definition, the same for every variant


def measure(bench: Bench) -> Figure:
    """Return the throughput of each variant, by rounds."""
    made = streams(bench, "catchup", rows=bench.sized(EVENTS), cap=min(CAP, bench.sized(EVENTS) // 4))

    def rate(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: made.rows / run(number).seconds

    samples = interleaved({name: rate(run) for name, run in made.variants.items()}, bench.rounds)
    return Figure(
        name="catchup",
        title="Catch-up throughput",
        values=(
            ratio("catchup_noop", samples["ours"], samples["noop"]),
            ratio("catchup_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events": made.rows, "cap": made.pipeline.max_rows_per_epoch, "rounds": bench.rounds},
        unit="events/s",
        samples=samples,
        equal=made.check(bench.rounds),
        notes=("All read at most 50,000 records per micro-batch, the default of a definition.",),
        full=made.rows >= EVENTS,
    )

"""Trigger time of an epoch of 5,000 events, as reported by Spark, for different sinks of the same aggregate."""

from collections.abc import Callable
from statistics import median

from benchmarks.bench import Bench
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads.streams import Run, make_streams

EVENTS = 5_000  # per epoch
EPOCHS = 16  # per run
WARM_UP = 3  # epochs of a run that are not measured, while plans are compiled and tables created


def measure(bench: Bench) -> Figure:
    """Measure the median trigger time of each variant, by rounds."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    streams = make_streams(bench, "epoch", rows=epochs * EVENTS, cap=EVENTS)

    def time_epoch(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: median(t.seconds for t in run(number).triggers[WARM_UP:])

    samples = measure_interleaved({name: time_epoch(run) for name, run in streams.variants.items()}, bench.rounds)
    return Figure(
        name="epoch",
        title="Trigger time of an epoch of 5,000 events",
        values=(
            ratio("epoch_noop", samples["ours"], samples["noop"]),
            ratio("epoch_hand_written", samples["ours"], samples["hand-written"]),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        equal=streams.check(bench.rounds),
        notes=("A sample is the median `triggerExecution` of a round's epochs, as Spark reports it.",),
        full=epochs >= EPOCHS,
    )

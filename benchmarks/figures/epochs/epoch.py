"""What an epoch of 5,000 events costs: Spark's own trigger time, by what becomes of the aggregate."""

from collections.abc import Callable
from statistics import median

from benchmarks.bench import Bench
from benchmarks.made.streams import Run, streams
from benchmarks.rounds import interleaved
from benchmarks.shown.figure import Figure, ratio

EVENTS = 5_000  # an epoch
EPOCHS = 16  # a run
WARM_UP = 3  # epochs of a run that do not count: plans are compiled, tables are made


def measure(bench: Bench) -> Figure:
    """Return the median trigger time of each variant, by rounds."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    made = streams(bench, "epoch", rows=epochs * EVENTS, cap=EVENTS)

    def typical(run: Callable[[int], Run]) -> Callable[[int], float]:
        return lambda number: median(t.seconds for t in run(number).triggers[WARM_UP:])

    samples = interleaved({name: typical(run) for name, run in made.variants.items()}, bench.rounds)
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
        equal=made.check(bench.rounds),
        notes=("A sample is the median `triggerExecution` of a round's epochs, as Spark reports it.",),
        full=epochs >= EPOCHS,
    )

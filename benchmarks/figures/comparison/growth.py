"""Ten times the data: how many times longer batch, fold and reconcile take, by turns at both sizes."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import reconcile
from benchmarks.made import lakes
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio

LARGE = 1_000_000
TIMES = 10


def measure(bench: Bench) -> Figure:
    """Return the seconds of each at both sizes, by rounds."""
    large = bench.sized(LARGE, least=TIMES)
    events = {name: lakes.of_events(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    cells = {name: lakes.of_cells(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    for lake in cells.values():
        lake.recompute()
    samples = interleaved(
        {f"ours, batch x {n}": lambda _, lake=lake: seconds(lake.recompute) for n, lake in events.items()}
        | {f"ours, fold x {n}": lambda _, lake=lake: seconds(lake.fold) for n, lake in cells.items()}
        | {f"ours, reconcile x {n}": lambda _, lake=lake: reconcile.once(lake) for n, lake in cells.items()},
        bench.rounds,
    )
    return Figure(
        name="growth",
        title="Ten times the data",
        values=tuple(
            ratio(f"growth_{name}", samples[f"ours, {name} x 10"], samples[f"ours, {name} x 1"])
            for name in ("batch", "fold", "reconcile")
        ),
        sizes={"events_x_10": large, "rows_x_10": large, "partial_rows_x_10": large * lakes.PASSES},
        unit="s",
        samples=samples,
        equal=("every reconciliation reported that both sides agree",),
        notes=("Batch: events into windows of 10 s x 200 keys. Fold and reconcile: rows of three partial rows each.",),
        full=large >= LARGE,
    )

"""Growth of batch, fold and reconcile with ten times the data, measured alternately at both sizes."""

from benchmarks.bench import Bench
from benchmarks.figures.comparison import reconcile
from benchmarks.results.figure import Figure, ratio
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads import lakes

LARGE = 1_000_000
TIMES = 10


def measure(bench: Bench) -> Figure:
    """Measure the seconds of each at both sizes, by rounds."""
    large = bench.sized(LARGE, least=TIMES)
    events = {name: lakes.make_event_lake(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    cells = {name: lakes.make_cell_lake(bench, size) for name, size in (("1", large // TIMES), ("10", large))}
    for workload in cells.values():
        workload.recompute()
    samples = measure_interleaved(
        {f"ours, batch x {n}": lambda _, w=w: time_call(w.recompute) for n, w in events.items()}
        | {f"ours, fold x {n}": lambda _, w=w: time_call(w.fold) for n, w in cells.items()}
        | {f"ours, reconcile x {n}": lambda _, w=w: reconcile.time_reconcile(w) for n, w in cells.items()},
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

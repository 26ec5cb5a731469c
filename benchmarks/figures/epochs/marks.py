"""What marks add to an epoch of 5,000 events, and how long a log is compared with them."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from unittest.mock import patch

from benchmarks.bench import Bench
from benchmarks.figures.epochs.epoch import EPOCHS, EVENTS, WARM_UP
from benchmarks.made.streams import Streams, streams
from benchmarks.rounds import interleaved, seconds
from benchmarks.shown.figure import Figure, ratio, value
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import same_log
from cutover.log.kafka import LogClient
from cutover.log.marks import MarkReader

COMPARISONS = 10


def measure(bench: Bench) -> Figure:
    """Return the median trigger time of an epoch with marks and without, and the time of one comparison."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    made = streams(bench, "marks", rows=epochs * EVENTS, cap=EVENTS)
    one, none = (replace(made, pipeline=replace(made.pipeline, name=f"marks_{name}")) for name in ("kept", "none"))

    def without(number: int) -> float:
        with patch.object(MarkReader, "last", lambda *_: {}):
            return _typical(none)(number)

    samples = interleaved(
        {"ours": _typical(one), "ours, no marks": without, "a comparison": lambda _: _compared(one)}, bench.rounds
    )
    return Figure(
        name="marks",
        title="An epoch of 5,000 events with marks of its last records",
        values=(
            ratio("marks_epoch", samples["ours"], samples["ours, no marks"]),
            value("marks_comparison", samples["a comparison"]),
        ),
        sizes={"events_an_epoch": EVENTS, "epochs_a_round": epochs - WARM_UP, "rounds": bench.rounds},
        unit="s",
        samples=samples,
        notes=("A sample is the median `triggerExecution` of a round's epochs; of comparisons the median of ten.",),
        full=epochs >= EPOCHS,
    )


def _typical(streams: Streams) -> Callable[[int], float]:
    return lambda number: median(t.seconds for t in streams.ours(number).triggers[WARM_UP:])


def _compared(streams: Streams) -> float:
    """Return how long the log is compared with the newest marks of the first round's run."""
    version, client = versions.list_versions(streams.settings, streams.renamed(0))[-1], LogClient(streams.settings)
    newest = EpochLog(version.uri).records()[-1]
    return median(seconds(lambda: same_log.find_changes(client, newest, tuple)) for _ in range(COMPARISONS))

"""Cost of marks in an epoch of 5,000 events, and of the comparison of a log with its marks."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from unittest.mock import patch

from benchmarks.bench import Bench
from benchmarks.figures.epochs.epoch import EPOCHS, EVENTS, WARM_UP
from benchmarks.results.figure import Figure, ratio, value
from benchmarks.rounds import measure_interleaved, time_call
from benchmarks.workloads.streams import Streams, make_streams
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import same_log
from cutover.lake.integrity.same_log import MarkReader
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake

COMPARISONS = 10


def measure(bench: Bench) -> Figure:
    """Measure the median trigger time of an epoch with and without marks, and the time of one comparison."""
    epochs = bench.sized(EPOCHS, least=WARM_UP + 2)
    base = make_streams(bench, "marks", rows=epochs * EVENTS, cap=EVENTS)
    with_marks, without_marks = (
        replace(base, pipeline=replace(base.pipeline, name=f"marks_{name}")) for name in ("kept", "none")
    )

    def without(number: int) -> float:
        with patch.object(MarkReader, "last", lambda *_: {}):
            return _make_timer(without_marks)(number)

    samples = measure_interleaved(
        {
            "ours": _make_timer(with_marks),
            "ours, no marks": without,
            "a comparison": lambda _: _time_comparison(with_marks),
        },
        bench.rounds,
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


def _make_timer(streams: Streams) -> Callable[[int], float]:
    return lambda number: median(t.seconds for t in streams.ours(number).triggers[WARM_UP:])


def _time_comparison(streams: Streams) -> float:
    """Return the median seconds of a comparison of the log with the latest marks of the first round."""
    version, client = (
        versions.list_stream_versions(PipelineLake(streams.settings, streams.for_round(0)))[-1],
        LogClient(streams.settings),
    )
    newest = EpochLog(version.uri).records()[-1]
    return median(
        time_call(lambda: same_log.find_rewritten_partitions(client, newest, tuple)) for _ in range(COMPARISONS)
    )

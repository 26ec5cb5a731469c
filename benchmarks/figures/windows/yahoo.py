"""Yahoo Streaming Benchmark: throughput of reading a backlog, and latency at three rates.

Latency is the time from the produce call of an event to the end of its micro-batch. The variants run one after another
in this process; a producer and the broker share the cores. Ours ends with the commit of the epoch, the hand-written job
with its MERGE, the lower bound with a noop sink.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from time import monotonic, sleep, time

from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.bench import Bench
from benchmarks.figures.epochs.latency import percentile
from benchmarks.results.figure import Figure, Value, ratio
from benchmarks.rounds import measure_interleaved
from benchmarks.workloads import events, yahoo
from benchmarks.workloads.drivers import read_latest_epoch
from benchmarks.workloads.live import Live
from benchmarks.workloads.streams import Run
from benchmarks.workloads.triggers import listen, wait_until
from benchmarks.workloads.yahoo import Yahoo
from cutover.clock import Point
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.pipeline_lake import PipelineLake
from cutover.samples.ad_views import AdEvents
from cutover.streaming import driver
from cutover.streaming.process import heartbeat

EVENTS = 200_000
CAP = 50_000  # records per micro-batch: the default of a definition, the same for all variants

THROUGHPUT_NOTE = (
    "100 campaigns with 10 ads each: views by campaign and ten seconds, the ads looked up in a Delta table. "
    "The hand-written job parses the three fields that it needs, ours all seven, strictly."
)


def measure_yahoo(bench: Bench) -> Figure:
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
        notes=(THROUGHPUT_NOTE,),
        full=streams.rows >= EVENTS,
    )


RATES = (2_000, 5_000, 10_000)
COMPARED = 5_000  # the rate whose p99 is the figure's value
WARM_UP_SECONDS, SECONDS = 6, 10
SHARES = {"p50": 0.5, "p99": 0.99}

LATENCY_NOTE = (
    "From the produce call of an event to the end of the micro-batch that held it (our commit, the hand-written job's "
    "MERGE), after a warm-up; samples are the thirds of a run. Ours pauses between epochs "
    "(`stream.trigger_seconds`, half a second), the other two do not."
)

Ends = Sequence[tuple[float, int]]  # end of each micro-batch (monotonic seconds), total number of events read by then
ReadEnds = Callable[[], Ends]


@dataclass(slots=True)
class _Commits:
    """Probe of the driver that records when each epoch was committed."""

    at: dict[int, float] = field(default_factory=dict)

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "epoch.committed":
            self.at[epoch] = monotonic()


def measure_yahoo_latency(bench: Bench) -> Figure:
    """Measure the delays at each rate, by variant."""
    span = bench.sized(SECONDS, least=3)
    samples: dict[str, tuple[float, ...]] = {}
    variants = {"noop": _noop, "hand-written": _native, "ours": _ours}
    for turn, rate in enumerate(RATES):
        names = [*variants][turn:] + [*variants][:turn]  # so that no variant always follows the same one
        for name in names:
            pipeline = yahoo.define(bench.settings, f"{name.replace('-', '_')}_{rate}", cap=CAP)
            triggers = bench.once("triggers", lambda: listen(bench.spark))
            workload = Yahoo(bench=bench, pipeline=pipeline, rows=0, triggers=triggers)
            events.make_topic(bench.settings, pipeline.source.name)
            delays = _measure_delays(workload, variants[name], rate, span)
            for label, share in SHARES.items():
                percentiles = tuple(round(percentile(part, share), 3) for part in _split_thirds(delays))
                samples[f"{name}, {rate:,}/s, {label}"] = percentiles
                print(f"  {rate:,}/s  {name:14} {label} {percentile(delays, share):.3f}", flush=True)
    return _make_figure(samples, span)


def _measure_delays(
    workload: Yahoo, start: Callable[[Yahoo], "Iterator[ReadEnds]"], rate: int, span: float
) -> list[float]:
    """Return the delay of each event that was sent after the warm-up, in the order of the produce calls.

    Raises:
        AssertionError: An event was not read.
    """
    ad_events = AdEvents(yahoo.SEED)
    with contextmanager(start)(workload) as read_ends:
        live = Live(
            workload.settings,
            workload.pipeline.source.name,
            keep_times=True,
            encode=lambda _, millis: ad_events.one(millis),
        )
        live.set_rate(rate)
        wait_until(lambda: bool(read_ends()), timeout=60, interval=0.1)
        began = monotonic() + WARM_UP_SECONDS
        sleep(WARM_UP_SECONDS + span)
        live.end()
        wait_until(lambda: _total(read_ends()) >= live.sent, timeout=120, interval=0.1)
        ends = read_ends()
    if _total(ends) != live.sent:
        msg = f"Yahoo at {rate}/s: expected {live.sent} events read, got {_total(ends)}."
        raise AssertionError(msg)
    delays, number = list[float](), 0
    for at, processed in ends:
        delays += [at - called for called in live.times[number:processed] if began <= called < began + span]
        number = processed
    return delays


def _total(ends: Ends) -> int:
    return ends[-1][1] if ends else 0


def _ours(workload: Yahoo) -> Iterator[ReadEnds]:
    commits, settings, pipeline = _Commits(), workload.settings, workload.pipeline
    lake = PipelineLake(settings, pipeline)
    thread = threading.Thread(target=lambda: driver.run_driver(lake, probe=commits), name="driver")
    thread.start()

    def ends() -> Ends:
        version = versions.find_current_version(lake)
        if version is None or read_latest_epoch(lake) is None:
            return ()
        committed = [record for record in EpochLog(version.uri).records() if record.epoch in commits.at]
        return [*zip((commits.at[r.epoch] for r in committed), accumulate(r.records for r in committed), strict=True)]

    try:
        yield ends
    finally:
        (heartbeat.run_folder(settings, pipeline.name) / "stop").touch()
        thread.join()


def _noop(workload: Yahoo) -> Iterator[ReadEnds]:
    yield from _query(workload, workload.noop_query(f"live-noop-{workload.pipeline.name}"))


def _native(workload: Yahoo) -> Iterator[ReadEnds]:
    yield from _query(workload, workload.spark_job_query(f"live-hand-{workload.pipeline.name}"))


def _query(workload: Yahoo, query: StreamingQuery) -> Iterator[ReadEnds]:
    name, ahead = query.name, time() - monotonic()

    def ends() -> Ends:
        triggers = workload.triggers.list_for(name)
        return [*zip((t.ended - ahead for t in triggers), accumulate(t.rows for t in triggers), strict=True)]

    try:
        yield ends
    finally:
        wait_until(lambda: not (query.isActive and query.status["isTriggerActive"]))
        query.stop()


def _split_thirds(delays: Sequence[float]) -> list[Sequence[float]]:
    size = -(-len(delays) // 3)
    return [delays[at : at + size] for at in range(0, len(delays), size)]


def _make_figure(samples: dict[str, tuple[float, ...]], span: float) -> Figure:
    ours, native = (samples[f"{name}, {COMPARED:,}/s, p99"] for name in ("ours", "hand-written"))
    ratios = [a / b for a, b in zip(ours, native, strict=True)]
    middle = sorted(ratios)[len(ratios) // 2]
    return Figure(
        name="yahoo_latency",
        title="Yahoo Streaming Benchmark: latency",
        values=(
            Value(goal="yahoo_latency", value=round(middle, 3), low=round(min(ratios), 3), high=round(max(ratios), 3)),
        ),
        sizes={"seconds_a_run": span, "cap": CAP},
        unit="s",
        samples=samples,
        notes=(LATENCY_NOTE,),
        full=span >= SECONDS,
    )

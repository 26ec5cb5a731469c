"""The Yahoo Streaming Benchmark at three rates: from an event's produce call to the end of the micro-batch with it.

Every variant runs in this process, one after the other; a producer and the broker share the cores. Ours ends with the
epoch's commit, the hand-written job with its MERGE, the limit with rows thrown away.
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
from benchmarks.made import events, yahoo
from benchmarks.made.drivers import newest
from benchmarks.made.live import Live
from benchmarks.made.triggers import listening, until
from benchmarks.made.yahoo import Yahoo
from benchmarks.shown.figure import Figure, Value
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.probe import Point
from cutover.samples.ad_views import AdEvents
from cutover.streaming import driver
from cutover.streaming.process import heartbeat

RATES = (2_000, 5_000, 10_000)
COMPARED = 5_000  # the rate whose p99 is the figure's value
WARM_UP_SECONDS, SECONDS = 6, 10
CAP = 50_000
SHARES = {"p50": 0.5, "p99": 0.99}

NOTE = (
    "From the produce call of an event to the end of the micro-batch that held it (our commit, the hand-written job's "
    "MERGE), after a warm-up; samples are the thirds of a run. Ours pauses between epochs "
    "(`stream.trigger_seconds`, half a second), the other two do not."
)

Ends = Sequence[tuple[float, int]]  # when (monotonic seconds) how many events in all had been taken
Running = Callable[[], Ends]


@dataclass(slots=True)
class _Commits:
    """Notes when each epoch was committed; a probe of the driver."""

    at: dict[int, float] = field(default_factory=dict)

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "epoch.committed":
            self.at[epoch] = monotonic()


def measure(bench: Bench) -> Figure:
    """Return the delays at each rate, by variant."""
    span = bench.sized(SECONDS, least=3)
    samples: dict[str, tuple[float, ...]] = {}
    variants = {"noop": _noop, "hand-written": _hand_written, "ours": _ours}
    for turn, rate in enumerate(RATES):
        names = [*variants][turn:] + [*variants][:turn]  # so that none always comes after the same one
        for name in names:
            pipeline = yahoo.define(bench.settings, f"{name.replace('-', '_')}_{rate}", cap=CAP)
            triggers = bench.once("triggers", lambda: listening(bench.spark))
            one = Yahoo(bench=bench, pipeline=pipeline, rows=0, triggers=triggers)
            events.make_topic(bench.settings, pipeline.source.name)
            delays = _delays(one, variants[name], rate, span)
            for share, of in SHARES.items():
                found = tuple(round(percentile(part, of), 3) for part in _thirds(delays))
                samples[f"{name}, {rate:,}/s, {share}"] = found
                print(f"  {rate:,}/s  {name:14} {share} {percentile(delays, of):.3f}", flush=True)
    return _figure(samples, span)


def _delays(one: Yahoo, start: Callable[[Yahoo], "Iterator[Running]"], rate: int, span: float) -> list[float]:
    """Return the delay of each event that was sent behind the warm-up, in the order of the produce calls.

    Raises:
        AssertionError: Not every event was taken.
    """
    ad_events = AdEvents(yahoo.SEED)
    with contextmanager(start)(one) as running:
        live = Live(
            one.settings, one.pipeline.source.name, keep_times=True, encode=lambda _, millis: ad_events.one(millis)
        )
        live.at(rate)
        until(lambda: bool(running()), within=60, every=0.1)
        began = monotonic() + WARM_UP_SECONDS
        sleep(WARM_UP_SECONDS + span)
        live.end()
        until(lambda: _taken(running()) >= live.sent, within=120, every=0.1)
        ends = running()
    if _taken(ends) != live.sent:
        msg = f"Yahoo at {rate}/s: expected {live.sent} events taken, got {_taken(ends)}."
        raise AssertionError(msg)
    found, number = list[float](), 0
    for at, taken in ends:
        found += [at - called for called in live.times[number:taken] if began <= called < began + span]
        number = taken
    return found


def _taken(ends: Ends) -> int:
    return ends[-1][1] if ends else 0


def _ours(one: Yahoo) -> Iterator[Running]:
    commits, settings, pipeline = _Commits(), one.settings, one.pipeline
    thread = threading.Thread(target=lambda: driver.run(settings, pipeline, probe=commits), name="driver")
    thread.start()

    def ends() -> Ends:
        version = versions.current(settings, pipeline)
        if version is None or newest(settings, pipeline) is None:
            return ()
        known = [record for record in EpochLog(version.uri).records() if record.epoch in commits.at]
        return [*zip((commits.at[r.epoch] for r in known), accumulate(r.records for r in known), strict=True)]

    try:
        yield ends
    finally:
        (heartbeat.folder(settings, pipeline.name) / "stop").touch()
        thread.join()


def _noop(one: Yahoo) -> Iterator[Running]:
    yield from _query(one, one.noop_query(f"live-noop-{one.pipeline.name}"))


def _hand_written(one: Yahoo) -> Iterator[Running]:
    yield from _query(one, one.hand_written_query(f"live-hand-{one.pipeline.name}"))


def _query(one: Yahoo, query: StreamingQuery) -> Iterator[Running]:
    name, ahead = query.name, time() - monotonic()

    def ends() -> Ends:
        found = one.triggers.of(name)
        return [*zip((t.ended - ahead for t in found), accumulate(t.rows for t in found), strict=True)]

    try:
        yield ends
    finally:
        until(lambda: not (query.isActive and query.status["isTriggerActive"]))
        query.stop()


def _thirds(delays: Sequence[float]) -> list[Sequence[float]]:
    size = -(-len(delays) // 3)
    return [delays[at : at + size] for at in range(0, len(delays), size)]


def _figure(samples: dict[str, tuple[float, ...]], span: float) -> Figure:
    ours, theirs = (samples[f"{name}, {COMPARED:,}/s, p99"] for name in ("ours", "hand-written"))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
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
        notes=(NOTE,),
        full=span >= SECONDS,
    )

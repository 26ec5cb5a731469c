"""From the produce call to what a fresh reader sees, at 5,000 events a second.

The driver is a detached process with its default settings. The reader waits for a new commit of the table's log; then
it opens the lake anew, as `cutover sql` does, folds the windows, and notes the time when it has the answer.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.drivers import commit_file, driving, first_epoch
from benchmarks.made.live import Live
from benchmarks.shown.figure import Curve, Figure, Points, Value
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving import views
from cutover.settings import Settings

RATE = 5_000
WARM_UP_SECONDS = 90  # until the JVM has compiled what an epoch runs
SECONDS = 120
CAP = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One answer of a reader."""

    at: float  # monotonic seconds
    epoch: int
    events: int


class Reader:
    """Reads after each commit, every time through a new connection."""

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self.seen: list[Seen] = []
        self._settings, self._pipeline, self._ended = settings, pipeline, threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        following = 0
        while not self._ended.wait(0.005):
            if commit_file(self._settings, self._pipeline, following).is_file():
                while commit_file(self._settings, self._pipeline, following).is_file():
                    following += 1
                self._read()

    def _read(self) -> None:
        with views.connect(self._settings, self._pipeline) as connection:
            query = "SELECT coalesce(max(epoch), -1), (SELECT coalesce(sum(n), 0)::BIGINT FROM streaming) FROM epochs"
            epoch, counted = connection.execute(query).fetchall()[0]
        self.seen.append(Seen(at=time.monotonic(), epoch=epoch, events=counted))


def measure(bench: Bench) -> Figure:
    """Return the delays of all events after the warm-up."""
    warm_up, span = bench.sized(WARM_UP_SECONDS, least=3), bench.sized(SECONDS, least=6)
    pipeline = events.define(bench.settings, "latency", cap=CAP)
    events.make_topic(bench.settings, pipeline.source.name)
    with driving(bench.settings, pipeline):
        live = Live(bench.settings, pipeline.source.name, keep_times=True)
        live.at(RATE)
        first_epoch(bench.settings, pipeline)
        reader = Reader(bench.settings, pipeline)
        began = time.monotonic() + warm_up
        time.sleep(warm_up + span)
        live.end()
        time.sleep(5)  # the last events are seen, or count as missing
        reader.end()
    ends = _ends(bench.settings, pipeline)
    delays = _delays(live.times, reader.seen, ends, (began, began + span))
    return _figure(bench, delays, (began, span), _checked(live, reader.seen, ends))


def _ends(settings: Settings, pipeline: Pipeline) -> dict[int, Mapping[int, int]]:
    version = versions.current(settings, pipeline)
    return {} if version is None else {record.epoch: record.end for record in EpochLog(version.uri).records()}


def _delays(
    times: Sequence[float], seen: Sequence[Seen], ends: Mapping[int, Mapping[int, int]], span: tuple[float, float]
) -> list[tuple[float, float]]:
    """Return (produce call, delay) of each event that was sent inside a span."""
    found: list[tuple[float, float]] = []
    before = dict.fromkeys(range(events.PARTITIONS), 0)
    for answer in seen:
        for partition, end in ends[answer.epoch].items():
            for offset in range(before[partition], end):
                called = times[offset * events.PARTITIONS + partition]
                if span[0] <= called < span[1]:
                    found.append((called, answer.at - called))
            before[partition] = max(before[partition], end)
    return sorted(found)


def _checked(live: Live, seen: Sequence[Seen], ends: Mapping[int, Mapping[int, int]]) -> tuple[str, ...]:
    """Compare what the last answer held with what was sent, and each answer with the cut of its epoch."""
    wrong = [answer for answer in seen if answer.events != sum(ends[answer.epoch].values())]
    if wrong or seen[-1].events != live.sent:
        msg = f"Latency: {len(wrong)} answers are not their epoch's; {seen[-1].events} of {live.sent} events are seen."
        raise AssertionError(msg)
    return (f"each of {len(seen)} answers held the events of its epoch; the last one all {live.sent:,}",)


def percentile(numbers: Sequence[float], share: float) -> float:
    """Return the number at a share of sorted numbers."""
    return sorted(numbers)[min(len(numbers) - 1, int(share * len(numbers)))]


def _figure(
    bench: Bench, delays: list[tuple[float, float]], span: tuple[float, float], equal: tuple[str, ...]
) -> Figure:
    began, length = span
    parts = _parts(delays, began, length / bench.rounds, bench.rounds)
    each_second = _parts(delays, began, 1.0, int(length))
    samples = {name: tuple(round(percentile(p, share), 3) for p in parts) for name, share in SHARES.items()}
    lines: dict[str, Points] = {
        name: tuple((float(second), round(percentile(p, share), 3)) for second, p in enumerate(each_second) if p)
        for name, share in SHARES.items()
    }
    everything = [delay for _, delay in delays]
    values = tuple(
        Value(
            goal=f"latency_{name}",
            value=round(percentile(everything, share), 3),
            low=min(samples[name]),
            high=max(samples[name]),
        )
        for name, share in SHARES.items()
    )
    return Figure(
        name="latency",
        title="Append to queryable",
        values=values,
        sizes={"events_a_second": RATE, "seconds": length, "events": len(everything)},
        unit="s",
        samples=samples,
        equal=equal,
        notes=(f"Samples are the percentiles of {bench.rounds} parts of the time, after a warm-up.",),
        curve=Curve(title="delay of the events sent in each second", x="seconds", y="seconds", lines=lines),
        full=length >= SECONDS,
    )


SHARES = {"p50": 0.5, "p99": 0.99}


def _parts(delays: list[tuple[float, float]], began: float, length: float, count: int) -> list[list[float]]:
    parts: list[list[float]] = [[] for _ in range(count)]
    for called, delay in delays:
        parts[min(count - 1, int((called - began) / length))].append(delay)
    return parts

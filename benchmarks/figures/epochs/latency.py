"""Latency from the produce call of an event until a new reader sees it, at 5,000 events per second.

The driver is a detached process with default settings. The reader waits for a commit in the table's log, opens a new
connection to the lake, as `cutover sql` does, folds the windows, and records the time when it has the result.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.results.figure import Curve, Figure, Points, Value
from benchmarks.workloads import events
from benchmarks.workloads.drivers import commit_file, run_driver, wait_for_first_epoch
from benchmarks.workloads.live import Live
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake

RATE = 5_000
WARM_UP_SECONDS = 90  # until the JVM has compiled the code of an epoch
SECONDS = 120
CAP = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderResult:
    """Result of one query of the reader."""

    at: float  # monotonic seconds
    epoch: int
    events: int


class Reader:
    """Reader that queries the lake after each commit, each time through a new connection."""

    def __init__(self, lake: PipelineLake) -> None:
        self.results: list[ReaderResult] = []
        self._lake, self._ended = lake, threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        next_version = 0
        while not self._ended.wait(0.005):
            if commit_file(self._lake, next_version).is_file():
                while commit_file(self._lake, next_version).is_file():
                    next_version += 1
                self._read()

    def _read(self) -> None:
        with views.open_views(self._lake) as connection:
            query = "SELECT coalesce(max(epoch), -1), (SELECT coalesce(sum(n), 0)::BIGINT FROM streaming) FROM epochs"
            epoch, event_count = connection.execute(query).fetchall()[0]
        self.results.append(ReaderResult(at=time.monotonic(), epoch=epoch, events=event_count))


def measure_latency(bench: Bench) -> Figure:
    """Measure the delays of all events after the warm-up."""
    warm_up, span = bench.sized(WARM_UP_SECONDS, least=3), bench.sized(SECONDS, least=6)
    pipeline = events.define(bench.settings, "latency", cap=CAP)
    events.make_topic(bench.settings, pipeline.source.name)
    lake = PipelineLake(bench.settings, pipeline)
    with run_driver(lake):
        live = Live(bench.settings, pipeline.source.name, keep_times=True)
        live.set_rate(RATE)
        wait_for_first_epoch(lake)
        reader = Reader(lake)
        began = time.monotonic() + warm_up
        time.sleep(warm_up + span)
        live.end()
        time.sleep(5)  # the reader has to see the last events in this time
        reader.end()
    ends = _read_ends(lake)
    delays = _compute_delays(live.times, reader.results, ends, (began, began + span))
    return _make_figure(bench, delays, (began, span), _check(live, reader.results, ends))


def _read_ends(lake: PipelineLake) -> dict[int, Mapping[int, int]]:
    version = versions.find_current_version(lake)
    return {} if version is None else {record.epoch: record.end for record in EpochLog(version.uri).records()}


def _compute_delays(
    times: Sequence[float],
    results: Sequence[ReaderResult],
    ends: Mapping[int, Mapping[int, int]],
    span: tuple[float, float],
) -> list[tuple[float, float]]:
    """Return the time of the produce call and the delay of each event that was sent within a span."""
    delays: list[tuple[float, float]] = []
    next_offsets = dict.fromkeys(range(events.PARTITIONS), 0)
    for result in results:
        for partition, end in ends[result.epoch].items():
            for offset in range(next_offsets[partition], end):
                called = times[offset * events.PARTITIONS + partition]
                if span[0] <= called < span[1]:
                    delays.append((called, result.at - called))
            next_offsets[partition] = max(next_offsets[partition], end)
    return sorted(delays)


def _check(live: Live, results: Sequence[ReaderResult], ends: Mapping[int, Mapping[int, int]]) -> tuple[str, ...]:
    """Check that each result has the events of its epoch, and the last one all sent events."""
    wrong = [result for result in results if result.events != sum(ends[result.epoch].values())]
    if wrong or results[-1].events != live.sent:
        msg = f"Latency: {len(wrong)} results differ from their epoch; {results[-1].events} of {live.sent} events read."
        raise AssertionError(msg)
    return (f"each of {len(results)} answers held the events of its epoch; the last one all {live.sent:,}",)


def percentile(numbers: Sequence[float], share: float) -> float:
    """Return the percentile of numbers, for a share between 0 and 1."""
    return sorted(numbers)[min(len(numbers) - 1, int(share * len(numbers)))]


def _make_figure(
    bench: Bench, delays: list[tuple[float, float]], span: tuple[float, float], equal: tuple[str, ...]
) -> Figure:
    began, length = span
    parts = _split(delays, began, length / bench.rounds, bench.rounds)
    seconds = _split(delays, began, 1.0, int(length))
    samples = {name: tuple(round(percentile(p, share), 3) for p in parts) for name, share in SHARES.items()}
    lines: dict[str, Points] = {
        name: tuple((float(second), round(percentile(p, share), 3)) for second, p in enumerate(seconds) if p)
        for name, share in SHARES.items()
    }
    all_delays = [delay for _, delay in delays]
    values = tuple(
        Value(
            goal=f"latency_{name}",
            value=round(percentile(all_delays, share), 3),
            low=min(samples[name]),
            high=max(samples[name]),
        )
        for name, share in SHARES.items()
    )
    return Figure(
        name="latency",
        title="Append to queryable",
        values=values,
        sizes={"events_a_second": RATE, "seconds": length, "events": len(all_delays)},
        unit="s",
        samples=samples,
        equal=equal,
        notes=(f"Samples are the percentiles of {bench.rounds} parts of the time, after a warm-up.",),
        curve=Curve(title="delay of the events sent in each second", x="seconds", y="seconds", lines=lines),
        full=length >= SECONDS,
    )


SHARES = {"p50": 0.5, "p99": 0.99}


def _split(delays: list[tuple[float, float]], began: float, length: float, count: int) -> list[list[float]]:
    parts: list[list[float]] = [[] for _ in range(count)]
    for called, delay in delays:
        parts[min(count - 1, int((called - began) / length))].append(delay)
    return parts

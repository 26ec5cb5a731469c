"""Sustained rate of a detached driver, while producer and broker share the same cores.

The rate is increased in steps. A step is sustained if the producer reached its rate, and the backlog stayed below two
seconds of events in the second half of the step.
"""

import time
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.results.figure import Curve, Figure, Marked, Value
from benchmarks.workloads import events
from benchmarks.workloads.drivers import read_latest_epoch, run_driver, wait_for_first_epoch
from benchmarks.workloads.live import Live
from cutover.pipeline_lake import PipelineLake

STEPS = (10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 90_000, 110_000)
STEP_SECONDS = 15
WARM_UP_SECONDS = 8
CAP = 50_000
MAX_BACKLOG_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogSample:
    """Backlog of a running stream at one moment."""

    at: float  # seconds since the start
    sent_events: int
    backlog: int


def measure_sustained(bench: Bench) -> Figure:
    """Measure the highest sustained rate."""
    span = bench.sized(STEP_SECONDS, least=6)
    pipeline = events.define(bench.settings, "sustained", cap=CAP)
    events.make_topic(bench.settings, pipeline.source.name)
    sustained_rate, samples, marks = 0.0, list[BacklogSample](), list[Marked]()
    lake = PipelineLake(bench.settings, pipeline)
    with run_driver(lake):
        live = Live(bench.settings, pipeline.source.name)
        live.set_rate(STEPS[0])
        wait_for_first_epoch(lake)
        time.sleep(WARM_UP_SECONDS)
        began = time.monotonic()
        for rate in STEPS:
            live.set_rate(rate)
            step_samples = sample_backlog(lake, live, began, span)
            samples += step_samples
            half = step_samples[len(step_samples) // 2 :]
            reached_rate = (half[-1].sent_events - half[0].sent_events) / (half[-1].at - half[0].at)
            marks.append(Marked(at=step_samples[0].at, text=f"{rate:,}/s"))
            print(
                f"  {rate:,}/s: sent {reached_rate:,.0f}/s, backlog at most {max(s.backlog for s in half):,}",
                flush=True,
            )
            if reached_rate < 0.95 * rate or max(s.backlog for s in half) > MAX_BACKLOG_SECONDS * rate:
                break
            sustained_rate = reached_rate
        live.end()
    return _make_figure(round(sustained_rate), samples, tuple(marks), full=span >= STEP_SECONDS)


def sample_backlog(lake: PipelineLake, live: Live, began: float, seconds: float) -> list[BacklogSample]:
    """Sample the backlog of a running stream twice a second."""
    samples = list[BacklogSample]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sent_count, record = live.sent, read_latest_epoch(lake)
        read = 0 if record is None else sum(record.end.values())
        at, backlog = round(time.monotonic() - began, 2), max(0, sent_count - read)
        samples.append(BacklogSample(at=at, sent_events=sent_count, backlog=backlog))
        time.sleep(0.5)
    return samples


def _make_figure(
    sustained_rate: float, samples: list[BacklogSample], marks: tuple[Marked, ...], *, full: bool
) -> Figure:
    rate = round(sustained_rate)
    line = tuple((sample.at, float(sample.backlog)) for sample in samples)
    return Figure(
        name="sustained",
        title="Sustained rate",
        values=(Value(goal="sustained_rate", value=rate, low=rate, high=rate),),
        sizes={"steps": len(marks), "seconds_a_step": samples[-1].at / max(1, len(marks)), "cap": CAP},
        unit="events/s",
        samples={"ours": (float(rate),)},
        notes=("A producer in Python, the broker, the driver and its readers share the two cores.",),
        curve=Curve(
            title="backlog by rate",
            x="seconds",
            y="events sent and not committed",
            lines={"backlog": line},
            marks=marks,
        ),
        full=full,
    )

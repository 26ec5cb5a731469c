"""The rate that a detached driver keeps up with, while producer and broker share the same cores.

The rate goes up by steps. A step is kept up if the producer reached it and the backlog stayed below two seconds' worth
of events in its second half.
"""

import time
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.made import events
from benchmarks.made.drivers import driving, first_epoch, newest
from benchmarks.made.live import Live
from benchmarks.shown.figure import Curve, Figure, Marked, Value
from cutover.definition.model.pipeline import Pipeline
from cutover.settings import Settings

STEPS = (10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 90_000, 110_000)
STEP_SECONDS = 15
WARM_UP_SECONDS = 8
CAP = 50_000
WORTH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a running stream."""

    at: float  # seconds since the start
    sent: int
    backlog: int


def measure(bench: Bench) -> Figure:
    """Return the last rate that was kept up."""
    span = bench.sized(STEP_SECONDS, least=6)
    pipeline = events.define(bench.settings, "sustained", cap=CAP)
    events.make_topic(bench.settings, pipeline.source.name)
    kept, samples, marks = 0.0, list[Sample](), list[Marked]()
    with driving(bench.settings, pipeline):
        live = Live(bench.settings, pipeline.source.name)
        live.at(STEPS[0])
        first_epoch(bench.settings, pipeline)
        time.sleep(WARM_UP_SECONDS)
        began = time.monotonic()
        for rate in STEPS:
            live.at(rate)
            found = watched(bench.settings, pipeline, live, began, span)
            samples += found
            half = found[len(found) // 2 :]
            reached = (half[-1].sent - half[0].sent) / (half[-1].at - half[0].at)
            marks.append(Marked(at=found[0].at, text=f"{rate:,}/s"))
            print(f"  {rate:,}/s: sent {reached:,.0f}/s, backlog at most {max(s.backlog for s in half):,}", flush=True)
            if reached < 0.95 * rate or max(s.backlog for s in half) > WORTH_SECONDS * rate:
                break
            kept = reached
        live.end()
    return _figure(kept, samples, tuple(marks), full=span >= STEP_SECONDS)


def watched(settings: Settings, pipeline: Pipeline, live: Live, began: float, seconds: float) -> list[Sample]:
    """Look at a running stream twice a second for some time."""
    found = list[Sample]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sent, record = live.sent, newest(settings, pipeline)
        read = 0 if record is None else sum(record.end.values())
        found.append(Sample(at=round(time.monotonic() - began, 2), sent=sent, backlog=max(0, sent - read)))
        time.sleep(0.5)
    return found


def _figure(kept: float, samples: list[Sample], marks: tuple[Marked, ...], *, full: bool) -> Figure:
    rate = round(kept)
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

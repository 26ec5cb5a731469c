"""Overload with twice the sustained rate for some minutes: state, backlog, time to recover, and lost events.

The sustained rate is that of docs/benchmarks/sustained.json, or of a `sustained` measured in the same run.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.figures.epochs.sustained import CAP
from benchmarks.results.figure import Curve, Figure, Marked, Points, Value
from benchmarks.workloads import events
from benchmarks.workloads.drivers import read_latest_epoch, run_driver, wait_for_first_epoch
from benchmarks.workloads.live import Live
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.streaming.process import heartbeat

RECOVERY_RATE = 1_000  # events per second after the overload
SMALL_BACKLOG_SECONDS = 2.0  # a backlog of two seconds of the sustained rate counts as caught up
TIMEOUT_SECONDS = 900.0
CALM_SECONDS = 10.0
FULL_MINUTES = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSample:
    """Backlog and state of the driver at one moment."""

    at: float  # seconds since the start
    sent_events: int
    backlog: int
    state: str


def measure_overload(bench: Bench) -> Figure:
    """Measure the time from the end of the overload until the driver has caught up."""
    settings, rate = bench.settings, bench.rate
    pipeline = events.define(settings, "overload", cap=CAP)
    events.make_topic(settings, pipeline.source.name)
    lake = PipelineLake(settings, pipeline)
    with run_driver(lake):
        live = Live(settings, pipeline.source.name)
        live.set_rate(rate / 2)
        wait_for_first_epoch(lake)
        small_backlog = round(SMALL_BACKLOG_SECONDS * rate)
        # First read the events that were sent while the driver started; they are not part of the overload.
        _sample(lake, live, time.monotonic(), [], duration=TIMEOUT_SECONDS, small=small_backlog)
        samples, began = list[DriverSample](), time.monotonic()
        _sample(lake, live, began, samples, duration=CALM_SECONDS)
        live.set_rate(2 * rate)
        overload_start = samples[-1]
        _sample(lake, live, began, samples, duration=bench.minutes * 60)
        live.set_rate(RECOVERY_RATE)
        overload_end = samples[-1]
        _sample(lake, live, began, samples, duration=TIMEOUT_SECONDS, small=small_backlog)
        recovery = samples[-1]
        live.end()
        _wait_read(lake, live.sent)
    reached_rate = (overload_end.sent_events - overload_start.sent_events) / (overload_end.at - overload_start.at)
    if recovery.backlog > small_backlog:
        msg = f"Overload: expected no backlog after {TIMEOUT_SECONDS:g} s, {recovery.backlog:,} events are unread."
        raise AssertionError(msg)
    moments = (overload_start, overload_end, recovery)
    return _make_figure(bench, samples, moments, reached_rate, check(lake, live.sent))


def _sample(
    lake: PipelineLake,
    live: Live,
    began: float,
    samples: list[DriverSample],
    *,
    duration: float,
    small: int | None = None,
) -> None:
    """Append a sample once a second, for a duration or until the backlog is small."""
    end = time.monotonic() + duration
    while time.monotonic() < end:
        sent_count, record = live.sent, read_latest_epoch(lake)
        backlog = max(0, sent_count - (0 if record is None else sum(record.end.values())))
        beat = heartbeat.find_heartbeat(lake.settings, lake.name)
        state = "" if beat is None else beat.state
        at = round(time.monotonic() - began, 1)
        samples.append(DriverSample(at=at, sent_events=sent_count, backlog=backlog, state=state))
        if small is not None and backlog <= small and state == "RUNNING":
            return
        time.sleep(1.0)


def _wait_read(lake: PipelineLake, sent_count: int) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        record = read_latest_epoch(lake)
        if record is not None and sum(record.end.values()) >= sent_count:
            return
        time.sleep(0.2)


def check(lake: PipelineLake, sent_count: int) -> str:
    """Compare the sent events with the table by number and sum of ids, and check that epochs have no gaps.

    Raises:
        AssertionError: Events are lost or counted twice.
    """
    version = versions.find_current_version(lake)
    uri = "" if version is None else version.uri
    with queries.open_duckdb() as connection:
        log = EpochLog(uri)
        records = log.records()
        log.relation(connection, "log", epoch=records[-1].epoch)
        folded = finish_sql(lake.pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
        number, ids = connection.execute(f"SELECT sum(n)::BIGINT, sum(ids) FROM ({folded})").fetchall()[0]
    gaps = [b.epoch for a, b in pairwise(records) if b.epoch != a.epoch + 1 or dict(b.start) != dict(a.end)]
    if number != sent_count or ids != sent_count * (sent_count - 1) // 2 or gaps:
        msg = f"Overload: the table has {number} of {sent_count} events, ids {ids}, gaps before epochs {gaps}."
        raise AssertionError(msg)
    late = sum(record.counts.get(Class.LATE, 0) for record in records)
    return (
        f"all {sent_count:,} events are in the table once, {late:,} of them late; {len(records):,} epochs without a gap"
    )


def _make_figure(
    bench: Bench,
    samples: list[DriverSample],
    moments: tuple[DriverSample, DriverSample, DriverSample],
    reached_rate: float,
    equal: str,
) -> Figure:
    overload_start, overload_end, recovery = moments
    line: Points = tuple((sample.at, float(sample.backlog)) for sample in samples)
    recovery_seconds = round(recovery.at - overload_end.at, 1)
    changes = [current for previous, current in pairwise(samples) if previous.state != current.state]
    states = ", ".join([samples[0].state, *(f"{change.state} at {change.at:g} s" for change in changes)])
    marks = [Marked(at=change.at, text=change.state.lower()) for change in changes]
    marks += [
        Marked(at=overload_start.at, text=f"{2 * bench.rate:,.0f}/s"),
        Marked(at=overload_end.at, text=f"{RECOVERY_RATE:,}/s"),
    ]
    return Figure(
        name="overload",
        title="Twice the sustained rate",
        values=(Value(goal="overload_recovery", value=recovery_seconds, low=recovery_seconds, high=recovery_seconds),),
        sizes={
            "minutes": round((overload_end.at - overload_start.at) / 60, 2),
            "wanted_rate": 2 * bench.rate,
            "reached_rate": round(reached_rate),
            "highest_backlog": max(sample.backlog for sample in samples),
        },
        unit="s",
        samples={"ours": (recovery_seconds,)},
        equal=(equal,),
        notes=(f"State of the driver: {states}.",),
        curve=Curve(
            title="backlog and the driver's state",
            x="seconds",
            y="events sent and not committed",
            lines={"backlog": line},
            marks=tuple(sorted(marks, key=lambda mark: mark.at)),
        ),
        full=bench.minutes >= FULL_MINUTES,
    )

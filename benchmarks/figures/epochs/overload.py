"""Twice the rate that is kept up, for some minutes: what happens meanwhile, how long the way back is, what is lost.

The rate is that of docs/benchmarks/sustained.json, or of a `sustained` measured in the same run.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.figures.epochs.sustained import CAP
from benchmarks.made import events
from benchmarks.made.drivers import driving, first_epoch, newest
from benchmarks.made.live import Live
from benchmarks.shown.figure import Curve, Figure, Marked, Points, Value
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.records.classes import Class
from cutover.records.fold import finish_sql
from cutover.settings import Settings
from cutover.streaming.process import heartbeat

AFTER = 1_000  # events a second once the overload is over
BACK = 2.0  # seconds' worth of the sustained rate: a backlog that small counts as caught up
PATIENCE_SECONDS = 900.0
CALM_SECONDS = 10.0
FULL_MINUTES = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the driver."""

    at: float  # seconds since the start
    sent: int
    backlog: int
    state: str


def measure(bench: Bench) -> Figure:
    """Return the time from the end of the overload until the backlog is gone."""
    settings, rate = bench.settings, bench.rate
    pipeline = events.define(settings, "overload", cap=CAP)
    events.make_topic(settings, pipeline.source.name)
    with driving(settings, pipeline):
        live = Live(settings, pipeline.source.name)
        live.at(rate / 2)
        first_epoch(settings, pipeline)
        caught_up = round(BACK * rate)
        # What came while the driver started is no overload.
        _look(settings, pipeline, live, time.monotonic(), [], within=PATIENCE_SECONDS, small=caught_up)
        looks, began = list[Look](), time.monotonic()
        _look(settings, pipeline, live, began, looks, within=CALM_SECONDS)
        live.at(2 * rate)
        over = looks[-1]
        _look(settings, pipeline, live, began, looks, within=bench.minutes * 60)
        live.at(AFTER)
        peak = looks[-1]
        _look(settings, pipeline, live, began, looks, within=PATIENCE_SECONDS, small=caught_up)
        back = looks[-1]
        live.end()
        _drained(settings, pipeline, live.sent)
    reached = (peak.sent - over.sent) / (peak.at - over.at)
    if back.backlog > caught_up:
        msg = f"Overload: expected the backlog gone within {PATIENCE_SECONDS:g} s, {back.backlog:,} events are left."
        raise AssertionError(msg)
    return _figure(bench, looks, (over, peak, back), reached, counted(settings, pipeline, live.sent))


def _look(  # noqa: PLR0913 -- one loop for the three stretches
    settings: Settings,
    pipeline: Pipeline,
    live: Live,
    began: float,
    looks: list[Look],
    *,
    within: float,
    small: int | None = None,
) -> None:
    """Look once a second, for a time or until the backlog is small."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        sent, record = live.sent, newest(settings, pipeline)
        backlog = max(0, sent - (0 if record is None else sum(record.end.values())))
        beat = heartbeat.read(settings, pipeline.name)
        state = "" if beat is None else beat.state
        looks.append(Look(at=round(time.monotonic() - began, 1), sent=sent, backlog=backlog, state=state))
        if small is not None and backlog <= small and state == "RUNNING":
            return
        time.sleep(1.0)


def _drained(settings: Settings, pipeline: Pipeline, sent: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        record = newest(settings, pipeline)
        if record is not None and sum(record.end.values()) >= sent:
            return
        time.sleep(0.2)


def counted(settings: Settings, pipeline: Pipeline, sent: int) -> str:
    """Compare all that was sent with all that is in the table: number, ids added up, epochs without a gap.

    Raises:
        AssertionError: Something is lost or double.
    """
    version = versions.current(settings, pipeline)
    uri = "" if version is None else version.uri
    with queries.connect() as connection:
        log = EpochLog(uri)
        records = log.records()
        log.relation(connection, "log", epoch=records[-1].epoch)
        folded = finish_sql(pipeline, "log", keep=(Class.ACCEPTED, Class.LATE))
        number, ids = connection.execute(f"SELECT sum(n)::BIGINT, sum(ids) FROM ({folded})").fetchall()[0]
    gaps = [b.epoch for a, b in pairwise(records) if b.epoch != a.epoch + 1 or dict(b.start) != dict(a.end)]
    if number != sent or ids != sent * (sent - 1) // 2 or gaps:
        msg = f"Overload: {number} of {sent} events are there, ids {ids}, gaps before epochs {gaps}."
        raise AssertionError(msg)
    late = sum(record.counts.get(Class.LATE, 0) for record in records)
    return f"all {sent:,} events are in the table once, {late:,} of them late; {len(records):,} epochs without a gap"


def _figure(bench: Bench, looks: list[Look], moments: tuple[Look, Look, Look], reached: float, equal: str) -> Figure:
    over, peak, back = moments
    line: Points = tuple((look.at, float(look.backlog)) for look in looks)
    took = round(back.at - peak.at, 1)
    changes = [(a, b) for a, b in pairwise(looks) if a.state != b.state]
    said = ", ".join([looks[0].state, *(f"{b.state} at {b.at:g} s" for _, b in changes)])
    marks = [Marked(at=b.at, text=b.state.lower()) for _, b in changes]
    marks += [Marked(at=over.at, text=f"{2 * bench.rate:,.0f}/s"), Marked(at=peak.at, text=f"{AFTER:,}/s")]
    return Figure(
        name="overload",
        title="Twice the sustained rate",
        values=(Value(goal="overload_recovery", value=took, low=took, high=took),),
        sizes={
            "minutes": round((peak.at - over.at) / 60, 2),
            "wanted_rate": 2 * bench.rate,
            "reached_rate": round(reached),
            "highest_backlog": max(look.backlog for look in looks),
        },
        unit="s",
        samples={"ours": (took,)},
        equal=(equal,),
        notes=(f"State of the driver: {said}.",),
        curve=Curve(
            title="backlog and the driver's state",
            x="seconds",
            y="events sent and not committed",
            lines={"backlog": line},
            marks=tuple(sorted(marks, key=lambda mark: mark.at)),
        ),
        full=bench.minutes >= FULL_MINUTES,
    )

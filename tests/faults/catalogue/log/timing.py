"""No input, or wrong clocks: event time follows from the records, never from this machine's clock."""

import time
from collections.abc import Iterator
from functools import partial

from cutover.definition import Lateness
from cutover.reconcile.watch.collector import FactCollector
from cutover.reconcile.watch.status import make_status
from cutover.records.classes import Class
from tests.faults.fault import Fault
from tests.faults.refused import count_of, no_record_is_late, says, text_of
from tests.faults.running.clocks import WrongClock
from tests.faults.running.rig import Rig
from tests.integration.streaming.rig import MINUTE, NOON, Event

IDLE_SECONDS = 40.0
TEN_MINUTES = 600.0
STEP = 20.0  # minutes of event time between two rounds
SILENT = 3  # the partition that stops sending first


# -- F13


def fall_idle(rig: Rig) -> None:
    """Stop one of four partitions, then all; then wake the first one with old events."""
    rig.define(cap=200, lateness=Lateness(out_of_orderness="5 minutes", idle_after=f"{IDLE_SECONDS:.0f} seconds"))
    rig.send(Event(id=p, minute=1, partition=p) for p in range(4))
    driver = rig.background()
    rig.until(lambda: rig.newest() >= 0 and rig.unread() == 0)
    end = rig.client.high_watermarks(rig.topic)[SILENT]
    sent_count = _send_but_one(rig)
    rig.note("text", next(alert.text for alert in rig.firing if alert.name == "WatermarkHeld"))
    held_at = rig.records()[-1].watermark_after or 0
    rig.until(lambda: (rig.records()[-1].watermark_after or 0) > held_at)
    rig.note("left the minimum", next(list(r.idle) for r in rig.records() if (r.watermark_after or 0) > held_at))
    rig.note("silent partition grew by", rig.client.high_watermarks(rig.topic)[SILENT] - end)
    text_of(rig, "NoInput")
    rested = rig.records()[-1]
    rig.note("watermark when all were idle", rested.watermark_after)
    rig.send(Event(id=5_000 + i, minute=2, logged=200, partition=SILENT) for i in range(7))
    rig.until(lambda: rig.unread() == 0)
    driver.stop()
    rig.note("sent", sent_count)


def _send_but_one(rig: Rig) -> int:
    """Send to the other three until the alert on the held watermark fires; return how many were sent."""
    number = 0
    deadline = time.monotonic() + IDLE_SECONDS - 1
    while "WatermarkHeld" not in rig.alerts():
        assert time.monotonic() < deadline, "the silent partition was idle before the alert fired"
        rig.send(Event(id=100 + 3 * number + p, minute=2 + STEP * number, partition=p) for p in range(3))
        number += 1
    return number


def one_partition_stayed_silent(rig: Rig) -> bool:
    """Its end offset stood beyond the idle time while the others grew; it alone was left out."""
    evidence = rig.evidence
    return (evidence["silent partition grew by"], evidence["left the minimum"], evidence["sent"] > 0) == (
        0,
        [SILENT],
        True,
    )


def close_by_a_final_drain(rig: Rig) -> None:
    """Close the last windows, recompute and compare."""
    rig.drain(final=True)
    rig.batch()
    rig.reconcile()


def old_events_after_waking_are_late(rig: Rig) -> Iterator[str]:
    """All seven."""
    late = count_of(rig, Class.LATE)
    if late != 7:
        yield f"expected 7 late rows, got {late}"


def time_rests_when_all_are_idle(rig: Rig) -> Iterator[str]:
    """The watermark stays at the slowest of the three that sent last."""
    expected = NOON + int(2 + STEP * (rig.evidence["sent"] - 1) - 5) * MINUTE
    watermark = rig.evidence["watermark when all were idle"]
    if watermark != expected:
        yield f"expected the watermark {expected}, got {watermark}"


def a_drain_closes_the_last_windows(rig: Rig) -> Iterator[str]:
    """None is open in the comparison."""
    report = rig.reconciliations[-1]
    if not rig.records()[-1].final or report.finding.windows.open:
        yield f"{report.finding.windows.open} windows are open after a final drain"


# -- F17


def skew_the_log(rig: Rig) -> None:
    """Log timestamps are ten minutes ahead in one partition, ten minutes behind in the other."""
    _send_live(rig, WrongClock(), {0: TEN_MINUTES, 1: -TEN_MINUTES})


def skew_the_driver(rig: Rig) -> None:
    """The driver's clock is ten minutes fast."""
    _send_live(rig, WrongClock(TEN_MINUTES), {})


def turn_the_driver_back(rig: Rig) -> None:
    """The driver's clock goes ten minutes back between two epochs."""
    _send_live(rig, WrongClock(), {}, turn=-TEN_MINUTES)


def _send_live(rig: Rig, clock: WrongClock, off: dict[int, float], *, turn: float = 0.0) -> None:
    """Send what is dated now, a little at a time, until the alert fires; keep the readings of both clocks."""
    driver = rig.background(clock=clock)
    rig.send(_now(off, 0))
    rig.until(lambda: rig.newest() >= 0)
    clock.off += turn
    number = 1
    while "ClockSkew" not in rig.alerts() and number < 100:
        rig.send(_now(off, number))
        rig.until(lambda: rig.unread() == 0)
        number += 1
    rig.note("text", next((alert.text for alert in rig.firing if alert.name == "ClockSkew"), ""))
    rig.note("readings", [record.processing_time for record in rig.records()])
    rig.note("driver off by", clock.off)
    rig.note("log off by", [off.get(0, 0.0), off.get(1, 0.0)])
    _note_lags(rig)
    driver.stop()


def _now(off: dict[int, float], number: int) -> list[Event]:
    minute = (time.time() * 1e6 - NOON) / MINUTE
    return [
        Event(id=100 * number + i, minute=minute - i / 10, logged=minute + off.get(i % 2, 0.0) / 60, partition=i % 2)
        for i in range(10)
    ]


def _note_lags(rig: Rig) -> None:
    status = make_status(FactCollector(rig.lake, WrongClock()).collect())
    lags = [status.watermark_lag_seconds or 0.0, *(p.seconds or 0.0 for p in status.partitions)]
    rig.note("smallest lag shown", min(lags))


def clocks_differ_by_ten_minutes(rig: Rig) -> bool:
    """The readings that were kept say so: of the log by its timestamps, of the driver by its epochs."""
    newest = {p: t / 1e6 for p, t in rig.client.newest_times(rig.topic).items()}
    log = [abs(newest[p] - time.time() - off) < 120 for p, off in enumerate(rig.evidence["log off by"])]
    return all(log) and max(map(abs, [rig.evidence["driver off by"], *rig.evidence["log off by"]])) == TEN_MINUTES


def every_record_is_accepted(rig: Rig) -> Iterator[str]:
    """The result is that of right clocks: a clock makes no record late, future or duplicate."""
    expected = {"accepted": len(rig.oracle.records)}
    counts = {kind.value: count_of(rig, kind) for kind in Class if count_of(rig, kind)}
    if counts != expected:
        yield f"expected {expected}, got {counts}"


def no_negative_lag_is_shown(rig: Rig) -> Iterator[str]:
    """Neither of the watermark nor of a partition."""
    if rig.evidence["smallest lag shown"] < 0:
        yield f"a lag of {rig.evidence['smallest lag shown']} s was shown"


def _clock(variant: str, title: str, inject: partial[None], words: list[str]) -> Fault:
    return Fault(
        id="F17",
        variant=variant,
        family="input",
        title=title,
        inject=inject,
        happened=clocks_differ_by_ten_minutes,
        settle=close_by_a_final_drain,
        holds=(no_record_is_late, every_record_is_accepted, no_negative_lag_is_shown, says(lambda _: words)),
        alert="ClockSkew",
        limits={"skew_seconds": 120.0},
    )


FAULTS = (
    Fault(
        id="F13",
        family="input",
        title="three of four partitions receive records, then none; then old events arrive",
        inject=fall_idle,
        happened=one_partition_stayed_silent,
        settle=close_by_a_final_drain,
        holds=(
            old_events_after_waking_are_late,
            time_rests_when_all_are_idle,
            a_drain_closes_the_last_windows,
            says(lambda _: [f"partition {SILENT} holds it"]),
        ),
        alert="WatermarkHeld",
        also=("NoInput",),
        limits={"held_seconds": 4.0},
        partitions=4,
    ),
    _clock("a", "log timestamps ten minutes ahead and behind", partial(skew_the_log), ["the driver's clock"]),
    _clock("b", "the driver's clock is ten minutes fast", partial(skew_the_driver), ["behind the driver's clock"]),
    _clock("c", "the driver's clock goes ten minutes back", partial(turn_the_driver_back), ["ahead of the driver's"]),
)

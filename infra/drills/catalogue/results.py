"""Alerts on what was computed: nobody compares, somebody holds an epoch for too long."""

from datetime import timedelta

from cutover.clock import SystemClock
from cutover.infra.drills.drill import Drill, nothing
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.lake.control import pins
from cutover.lake.epochs.epoch_log import EpochLog

HOLDER = "drill"
SOON = 30 / 3_600  # of the schedule, an hour: 30 seconds


def pin_for_too_long(stack: Stack) -> None:
    """Hold the newest epoch for longer than the table keeps files that were replaced."""
    newest = EpochLog(stack.version.uri).newest()
    now = SystemClock().now()
    expires = now + timedelta(days=30)
    epoch = 0 if newest is None else newest.epoch
    pins.pin(stack.settings, stack.version, epoch, holder=HOLDER, expires_at=expires, now=now)


def release(stack: Stack) -> None:
    """Let it go: the holder is done."""
    newest = EpochLog(stack.version.uri).newest()
    epoch = 0 if newest is None else newest.epoch
    pins.release(stack.settings, stack.version, epoch, holder=HOLDER, now=SystemClock().now())


def compare(stack: Stack) -> None:
    """Compare at the newest cut of batch, as the schedule does."""
    stack.require(f"cutover reconcile {PIPELINE}")


DRILLS = (
    Drill(
        name="PinnedVersionAtRisk",
        title="a reader holds an epoch for a month",
        inject=pin_for_too_long,
        heal=release,
        quick=True,
    ),
    Drill(
        name="ReconcilerNotRunning",
        title="nobody compares for longer than two schedules",
        inject=nothing,
        before=compare,
        scale={"reconcile_schedules": SOON},
    ),
)

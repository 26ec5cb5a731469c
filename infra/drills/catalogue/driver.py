"""Alerts on the driver: it ended while records come, or another one was at work."""

import os
import signal

from cutover.errors import CutoverError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.infra.processes import drivers

FEW = 6


def driver_pid(stack: Stack) -> int:
    """Return the process of the living driver.

    Raises:
        CutoverError: None lives.
    """
    for driver in drivers.list_drivers(stack.settings.run_dir):
        if driver.alive:
            return driver.identity.pid
    msg = "Drill: expected a driver that lives, got none."
    raise CutoverError(msg)


def kill_driver(stack: Stack) -> None:
    """Kill the driver, and send records that nobody reads then."""
    os.kill(driver_pid(stack), signal.SIGKILL)
    stack.records.send(FEW)


def wake_a_stopped_driver(stack: Stack) -> None:
    """Stop the driver where it stands, let one of another home commit, and wake it with records to read."""
    pid = driver_pid(stack)
    os.kill(pid, signal.SIGSTOP)
    try:
        stack.records.send(FEW)
        stack.require(
            f"cutover stream {PIPELINE} --drain",
            CUTOVER_HOME=str(stack.root / "second-home"),
            CUTOVER_LAKE=stack.settings.lake_uri,
            CUTOVER_KAFKA__BOOTSTRAP_SERVERS=stack.client.bootstrap,
        )
        stack.records.send(FEW)
    finally:
        os.kill(pid, signal.SIGCONT)


DRILLS = (
    Drill(name="StreamNotRunning", title="the driver is killed while records arrive", inject=kill_driver),
    Drill(
        name="StreamFenced",
        title="the driver is paused, one of another home commits, and the first one continues",
        inject=wake_a_stopped_driver,
    ),
)

"""Alerts on the driver: it ended while records come."""

import os
import signal

from cutover.errors import CutoverError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import Stack
from cutover.infra.processes import drivers

FEW = 6


def driver_pid(stack: Stack) -> int:
    """Return the process of the living driver.

    Raises:
        CutoverError: None lives.
    """
    for found in drivers.list_drivers(stack.settings.run_dir):
        if found.alive:
            return found.identity.pid
    msg = "Drill: expected a driver that lives, got none."
    raise CutoverError(msg)


def kill_driver(stack: Stack) -> None:
    """Kill the driver, and send records that nobody reads then."""
    os.kill(driver_pid(stack), signal.SIGKILL)
    stack.records.send(FEW)


DRILLS = (Drill(name="StreamNotRunning", title="the driver is killed while records come", inject=kill_driver),)

"""Alerts on the driver: it ended while records arrive, or another driver has committed."""

import os
import signal

from cutover.errors import CutoverError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.infra.processes import drivers

FEW_RECORDS = 6


def find_driver_pid(stack: Stack) -> int:
    """Return the process id of the running driver.

    Raises:
        CutoverError: No driver is running.
    """
    for driver in drivers.list_drivers(stack.settings.run_dir):
        if driver.alive:
            return driver.identity.pid
    msg = "Drill: expected a running driver, got none."
    raise CutoverError(msg)


def kill_driver(stack: Stack) -> None:
    """Kill the driver and send records, which remain unread."""
    os.kill(find_driver_pid(stack), signal.SIGKILL)
    stack.records.send(FEW_RECORDS)


def resume_suspended_driver(stack: Stack) -> None:
    """Suspend the driver, commit an epoch by a driver of another home, and resume the first one with unread records."""
    pid = find_driver_pid(stack)
    os.kill(pid, signal.SIGSTOP)
    try:
        stack.records.send(FEW_RECORDS)
        stack.require(
            f"cutover stream {PIPELINE} --drain",
            CUTOVER_HOME=str(stack.root / "second-home"),
            CUTOVER_LAKE=stack.settings.lake_uri,
            CUTOVER_KAFKA__BOOTSTRAP_SERVERS=stack.client.bootstrap,
        )
        stack.records.send(FEW_RECORDS)
    finally:
        os.kill(pid, signal.SIGCONT)


DRILLS = (
    Drill(name="StreamNotRunning", title="the driver is killed while records arrive", inject=kill_driver),
    Drill(
        name="StreamFenced",
        title="the driver is suspended, a driver of another home commits, and the first one resumes",
        inject=resume_suspended_driver,
    ),
)

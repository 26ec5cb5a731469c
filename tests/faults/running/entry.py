"""The process that a fault harms: one path, with a probe that notes every point and stops at one of them.

`python -m tests.faults.running.entry FILE`: the file holds a pickled `Task`, written by the test a moment ago.
"""

import os
import pickle
import sys
import threading
import time
from pathlib import Path

from cutover import events
from cutover.batch.recompute import recompute_windows as batch
from cutover.clock import Point
from cutover.errors import CutoverError
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.run import run_reconciliation
from cutover.streaming import driver
from tests.faults.running.task import Task

_LOOK_SECONDS = 0.02


class Tracing:
    """Writes `point epoch pid` for every point, durably, and stops at the one that is wanted."""

    def __init__(self, task: Task) -> None:
        self._task, self._lock = task, threading.Lock()

    def __call__(self, point: Point, epoch: int) -> None:
        """Note the point; block here, if this is the place."""
        with self._lock, self._task.trace.open("a", encoding="utf-8") as file:
            file.write(f"{point} {epoch} {os.getpid()}\n")
            file.flush()
            os.fsync(file.fileno())
        if self._task.block in ((point, epoch), (point, None)):
            released = self._task.trace.with_suffix(".release")
            while not released.exists():
                time.sleep(_LOOK_SECONDS)


def perform(task: Task) -> int:
    """Run the path and return its exit code."""
    probe, pipeline = Tracing(task), task.make()
    lake = PipelineLake(task.settings, pipeline)
    if task.role == "stream":
        return driver.run_driver(lake, until=task.until, clock=task.clock, probe=probe)
    if task.role == "batch":
        batch(lake, probe=probe)
        return 0
    return run_reconciliation(lake, probe=probe, clock=task.clock).finding.exit_code


def main(file: Path) -> int:
    """Do what the file says, as the command line would."""
    task: Task = pickle.loads(file.read_bytes())  # noqa: S301 -- written by the test that started us
    events.configure(pretty=False)
    if task.prepare is not None:
        task.prepare()
    try:
        return perform(task)
    except CutoverError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""A child process as the fault sees it: what it reached, how it ended, and the signals it gets."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil

from cutover.infra.processes.family import end_with_parent
from tests.faults.running.task import Task
from tests.support.suite.until import until

WITHIN = 240.0
Whom = Literal["group", "jvm", "python"]


class Reached(NamedTuple):
    """A line of the trace."""

    point: str
    epoch: int
    pid: int


class Child:
    """A path in a separate process group; ends with the test however the test ends."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.log = task.trace.with_suffix(".log")
        task_file = task.trace.with_suffix(".task")
        task_file.write_bytes(pickle.dumps(task))
        with self.log.open("wb") as log_file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.running.entry", str(task_file)],
                cwd=Path(__file__).parents[3],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 -- one call to the kernel
            )
        self.pid = self.process.pid

    def points(self) -> list[Reached]:
        """Return every point reached so far, in order."""
        text = self.task.trace.read_text(encoding="utf-8") if self.task.trace.exists() else ""
        complete_lines = text[: text.rfind("\n") + 1]
        lines = (line.split() for line in complete_lines.splitlines())
        return [Reached(point, int(epoch), int(pid)) for point, epoch, pid in lines]

    def find_point(self, point: str, epoch: int | None = None) -> Reached | None:
        """Return the first line of a point, if it was reached."""
        return next((r for r in self.points() if r.point == point and epoch in {None, r.epoch}), None)

    def marker(self, timeout: float = WITHIN) -> Reached:
        """Wait until it blocks at its blocking point, and return that line."""
        assert self.task.block is not None, "this child has no blocking point"
        return self.await_point(*self.task.block, timeout=timeout)

    def await_point(self, point: str, epoch: int | None = None, *, timeout: float = WITHIN) -> Reached:
        """Wait until a point is reached; fail at once with its log if the child ends before."""

        def read_marker() -> Reached | None:
            reached = self.find_point(point, epoch)
            assert reached or self.process.poll() is None, f"ended with {self.process.returncode}: {self.tail()}"
            return reached

        reached = until(read_marker, timeout, every=0.02)
        assert reached is not None
        return reached

    def release(self) -> None:
        """Continue from the blocking point."""
        self.task.trace.with_suffix(".release").touch()

    def kill(self, whom: Whom = "group") -> int | None:
        """Send SIGKILL; return the wait status of Python (-9), or None where only the JVM was killed."""
        if whom == "jvm":
            self.jvm().kill()
            return None
        if whom == "group":
            os.killpg(self.pid, signal.SIGKILL)
        else:
            os.kill(self.pid, signal.SIGKILL)
        return self.process.wait(30)

    def pause(self) -> None:
        """Stop the whole group as SIGSTOP does, and wait until the kernel says so."""
        os.killpg(self.pid, signal.SIGSTOP)
        until(lambda: self.state() == psutil.STATUS_STOPPED, 10, every=0.01)

    def resume(self) -> None:
        """Continue a stopped group."""
        os.killpg(self.pid, signal.SIGCONT)

    def state(self) -> str:
        """Return the state of the Python process as the kernel has it (`stopped`: T)."""
        return str(psutil.Process(self.pid).status())

    def jvm(self) -> psutil.Process:
        """Return the JVM of this child."""
        jvms = until(lambda: [p for p in psutil.Process(self.pid).children(recursive=True) if "java" in p.name()], 30)
        return jvms[0]

    def wait(self, timeout: float = WITHIN) -> int:
        """Wait for its end and return its exit code; negative: the signal."""
        return self.process.wait(timeout)

    def stop(self, timeout: float = WITHIN) -> int:
        """End it as an operator would, by SIGTERM, and return its exit code."""
        self.process.terminate()
        return self.wait(timeout)

    def end(self) -> None:
        """End the group, whatever it does; for the rig's own use. A stopped JVM does not notice that Python is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(30)

    def output(self) -> str:
        """Return what it wrote."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self) -> str:
        """Return the end of what it wrote."""
        return self.output()[-2000:]

    def events(self) -> list[dict[str, Any]]:
        """Return the events it logged."""
        return [event for line in self.output().splitlines() if (event := _event(line)) is not None]


def _event(line: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and "event" in parsed else None

"""Process of `cutover watch` during a drill, and the alerts of its latest sample."""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.drills.stack import PIPELINE, Stack

Result = TypeVar("Result")

INTERVAL = 0.5
MAX_ERROR_LINES = 6


class AlertWatch:
    """Context with one process of `cutover watch --json`, which is restarted if it ends."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._process: subprocess.Popen[str] | None = None
        self._alerts: Mapping[str, str] | None = None  # name to text, of the latest sample; None before the first
        self._samples = 0
        self._error_lines: list[str] = []

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def restart(self) -> None:
        """Start another process, because a process reads a changed definition only at its start."""
        self._stop()
        self._start()

    def wait_firing(self, name: str, *, timeout: float, sustain: Callable[[], object]) -> str:
        """Wait until an alert fires and return its text.

        Args:
            name: Name of the alert.
            timeout: Seconds.
            sustain: Called before each poll, to sustain the fault.

        Raises:
            CutoverError: It did not fire in time; the message names the alerts that did.
        """

        def find_text() -> str | None:
            sustain()
            return self._read().get(name)

        return self._wait(find_text, timeout, f"{name} to fire within {timeout:g} s")

    def wait_clear(self, name: str, *, timeout: float, sustain: Callable[[], object]) -> None:
        """Wait until a sample after this call does not show an alert.

        Args:
            name: Name of the alert.
            timeout: Seconds.
            sustain: Called before each poll, to keep the pipeline healthy.

        Raises:
            CutoverError: It still fires after the timeout.
        """
        ignored_samples = self._samples + 1  # a sample in progress may have been started before the repair

        def is_clear() -> bool | None:
            sustain()
            alerts = self._read()
            return True if self._samples > ignored_samples and name not in alerts else None

        self._wait(is_clear, timeout, f"{name} to clear within {timeout:g} s")

    def _wait(self, poll: Callable[[], Result | None], timeout: float, expected: str) -> Result:
        result = poll_until(poll, timeout=timeout, interval=INTERVAL / 2)
        if result is None:
            alerts = ", ".join(f"{name} ({text})" for name, text in self._read().items()) or "none"
            error_lines = "".join(f"\n  {line}" for line in self._error_lines)
            msg = f"Drill: expected {expected}, got these alerts: {alerts}.{error_lines}"
            raise CutoverError(msg)
        return result

    def _read(self) -> Mapping[str, str]:
        """Return the alerts of the latest sample; restart the process if it has ended."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._alerts or {}

    def _start(self) -> None:
        self._alerts = None
        self._process = process = self._stack.start(f"cutover watch {PIPELINE} --json --interval {INTERVAL}")
        for read in (self._read_samples, self._read_errors):
            threading.Thread(target=read, args=(process,), daemon=True).start()

    def _read_samples(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 -- the stack pipes it
        for line in process.stdout:
            status = json.loads(line)
            self._alerts = {alert["name"]: alert["text"] for alert in status["alerts"]}
            self._samples += 1

    def _read_errors(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None  # noqa: S101 -- the stack pipes it
        for line in process.stderr:
            self._error_lines = [*self._error_lines, line.rstrip()][-MAX_ERROR_LINES:]

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)

"""`cutover watch` as it runs beside a drill, and what fires by its newest look."""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.drills.stack import PIPELINE, Stack

Found = TypeVar("Found")

INTERVAL = 0.5
LINES_KEPT = 6


class Watching:
    """One process of `cutover watch --json` for as long as the block lasts; begun again when it ended."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._process: subprocess.Popen[str] | None = None
        self._firing: Mapping[str, str] | None = None  # of the newest look; None before the first
        self._looks = 0
        self._said: list[str] = []

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin_again(self) -> None:
        """Start anew: the definition was changed, and a process reads it once."""
        self._end()
        self._begin()

    def wait_firing(self, name: str, *, within: float, meanwhile: Callable[[], object]) -> str:
        """Wait until an alert fires and return what it says.

        Raises:
            CutoverError: It did not fire in time; names those that did.
        """

        def look() -> str | None:
            meanwhile()
            return self._read().get(name)

        return self._wait(look, within, f"{name} to fire within {within:g} s")

    def wait_clear(self, name: str, *, within: float, meanwhile: Callable[[], object]) -> None:
        """Wait until a look from now on does not show an alert.

        Raises:
            CutoverError: It fires still when the time is over.
        """
        first_sample = self._looks + 1  # a look that is under way may have begun before what has changed since

        def look() -> bool | None:
            meanwhile()
            firing = self._read()
            return True if self._looks > first_sample and name not in firing else None

        self._wait(look, within, f"{name} to clear within {within:g} s")

    def _wait(self, look: Callable[[], Found | None], within: float, expected: str) -> Found:
        result = poll_until(look, within=within, every=INTERVAL / 2)
        if result is None:
            firing = ", ".join(f"{name} ({text})" for name, text in self._read().items()) or "none"
            output_lines = "".join(f"\n  {line}" for line in self._said)
            msg = f"Drill: expected {expected}, got these alerts: {firing}.{output_lines}"
            raise CutoverError(msg)
        return result

    def _read(self) -> Mapping[str, str]:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        return self._firing or {}

    def _begin(self) -> None:
        self._firing = None
        self._process = process = self._stack.start(f"cutover watch {PIPELINE} --json --interval {INTERVAL}")
        for follow in (self._follow_looks, self._follow_errors):
            threading.Thread(target=follow, args=(process,), daemon=True).start()

    def _follow_looks(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 -- the stack pipes it
        for line in process.stdout:
            status = json.loads(line)
            self._firing = {alert["name"]: alert["text"] for alert in status["alerts"]}
            self._looks += 1

    def _follow_errors(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None  # noqa: S101 -- the stack pipes it
        for line in process.stderr:
            self._said = [*self._said, line.rstrip()][-LINES_KEPT:]

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)

"""Waits that show their progress: a bar on a terminal, otherwise a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cutover.clock import poll_until
from cutover.errors import CutoverError

POLL = 1.0  # seconds
LINE_EVERY = 10.0  # seconds
UpdateProgress = Callable[[str, int, int | None], None]  # note, completed, total
Result = TypeVar("Result")


@contextmanager
def show_wait(title: str) -> Iterator[UpdateProgress]:
    """Show one wait; the yielded function updates its progress."""
    if sys.stderr.isatty():
        with _show_bar(title) as update_progress:
            yield update_progress
    else:
        yield _LineReporter(title).report


def wait_for(title: str, poll: Callable[[UpdateProgress], Result | None], *, timeout: float, hint: str) -> Result:
    """Poll until there is a result, show the progress, and return the result.

    Args:
        title: Condition that is waited for, shown to the user.
        poll: Returns the result, or None if there is none yet, and reports its progress.
        timeout: Seconds.
        hint: Next step of the user after a timeout.

    Raises:
        CutoverError: There was no result in time.
    """
    with show_wait(title) as update_progress:
        result = poll_until(lambda: poll(update_progress), timeout=timeout, interval=POLL)
    if result is not None:
        return result
    msg = f"{title}: expected an end within {timeout:.0f} s, got none.\nHint: {hint}"
    raise CutoverError(msg)


@contextmanager
def _show_bar(title: str) -> Iterator[UpdateProgress]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None, note="")

        def update(note: str, completed: int, total: int | None) -> None:
            progress.update(task, note=note, completed=completed, total=total)

        yield update
        total = progress.tasks[0].total or 1
        progress.update(task, total=total, completed=total)


class _LineReporter:
    def __init__(self, title: str) -> None:
        self._title, self._started_at, self._next_line_at = title, time.monotonic(), 0.0

    def report(self, note: str, completed: int, total: int | None) -> None:  # noqa: ARG002 -- a line has no bar
        now = time.monotonic()
        if now < self._next_line_at:
            return
        self._next_line_at = now + LINE_EVERY
        sys.stderr.write(f"{self._title}: {note} ({now - self._started_at:.0f} s)\n")
        sys.stderr.flush()

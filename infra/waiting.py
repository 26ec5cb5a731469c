"""Waits that say what they wait for: a bar on a terminal, a line every ten seconds elsewhere."""

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
Tell = Callable[[str, int, int | None], None]  # what is so, done, of how many
Found = TypeVar("Found")


@contextmanager
def show_wait(title: str) -> Iterator[Tell]:
    """Show one wait; the function that is handed out says how far it is."""
    if sys.stderr.isatty():
        with _bar(title) as tell:
            yield tell
    else:
        yield _Lines(title).tell


def until(title: str, look: Callable[[Tell], Found | None], *, within: float, hint: str) -> Found:
    """Return what `look` finds, asking again and again and showing the wait.

    Args:
        title: What is waited for.
        look: Returns None as long as it is not there, and tells how far it is.
        within: Seconds.
        hint: What to do when it does not come.

    Raises:
        CutoverError: It did not come in time.
    """
    with show_wait(title) as tell:
        result = poll_until(lambda: look(tell), within=within, every=POLL)
    if result is not None:
        return result
    msg = f"{title}: expected an end within {within:.0f} s, got none.\nHint: {hint}"
    raise CutoverError(msg)


@contextmanager
def _bar(title: str) -> Iterator[Tell]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None, note="")

        def tell(note: str, completed: int, total: int | None) -> None:
            progress.update(task, note=note, completed=completed, total=total)

        yield tell
        shown = progress.tasks[0].total or 1
        progress.update(task, total=shown, completed=shown)


class _Lines:
    def __init__(self, title: str) -> None:
        self._title, self._begun, self._next = title, time.monotonic(), 0.0

    def tell(self, note: str, done: int, total: int | None) -> None:  # noqa: ARG002 -- a line has no bar
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LINE_EVERY
        sys.stderr.write(f"{self._title}: {note} ({now - self._begun:.0f} s)\n")
        sys.stderr.flush()

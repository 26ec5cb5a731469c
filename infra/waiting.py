"""Waits for a condition, with their progress."""

from collections.abc import Callable
from typing import TypeVar

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.output.console import show_bar

POLL = 1.0  # seconds
UpdateProgress = Callable[[str, int, int | None], None]  # note, completed, total
Result = TypeVar("Result")


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
    with show_bar(title, first_line_after=0) as update:
        result = poll_until(
            lambda: poll(lambda note, completed, total: update(completed, total, f"{title}: {note}")),
            timeout=timeout,
            interval=POLL,
        )
    if result is not None:
        return result
    msg = f"{title}: expected an end within {timeout:.0f} s, got none.\nHint: {hint}"
    raise CutoverError(msg)

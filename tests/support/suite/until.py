"""Wait for a fact instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def until(look: Callable[[], Value], within: float = 60.0, *, every: float = 0.1) -> Value:
    """Return the first true value of `look()`; fail with the last one seen after `within` seconds."""
    deadline = time.monotonic() + within
    value = look()
    while not value:
        if time.monotonic() > deadline:
            message = f"not true within {within:.0f} s; the last value was {value!r}"
            raise AssertionError(message)
        time.sleep(every)
        value = look()
    return value

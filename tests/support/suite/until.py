"""Wait for a fact instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def until(read: Callable[[], Value], within: float = 60.0, *, every: float = 0.1) -> Value:
    """Poll `read()` until its value is true and return it; fail with the last value after `within` seconds."""
    deadline = time.monotonic() + within
    value = read()
    while not value:
        if time.monotonic() > deadline:
            message = f"not true within {within:.0f} s; the last value was {value!r}"
            raise AssertionError(message)
        time.sleep(every)
        value = read()
    return value

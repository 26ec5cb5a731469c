"""Waits of the driver's main thread before it polls the log again."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cutover.settings import Settings, StreamSettings
from cutover.streaming import driver

TRIGGER = 0.4


class Wake:
    """Event whose waits take time only on the test's clock; each may be ended early by `interrupt`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.interrupts: Iterator[Callable[[], float]] = iter(())

    def wait(self, seconds: float) -> None:
        """Advance the clock by the whole wait, or by what the next interrupt returns."""
        self.waits.append(seconds)
        self.now += next(self.interrupts, lambda: seconds)()

    def clear(self) -> None:
        """Do nothing: the event is never set."""


@pytest.fixture
def wake(monkeypatch: pytest.MonkeyPatch) -> Wake:
    """Return the event that ends a wait, on whose clock the reader runs."""
    wake = Wake()
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: wake.now))
    return wake


def await_next_poll(stream: Any) -> None:
    settings = Settings(stream=StreamSettings(trigger_seconds=TRIGGER))
    context = SimpleNamespace(lake=SimpleNamespace(settings=settings), stopping=threading.Event())
    driver._await_next_poll(cast("Any", context), stream)


def make_stream(wake: Wake, **changes: object) -> Any:
    return SimpleNamespace(**{"wake": wake, "failure": None, "drained": False} | changes)


def test_epoch_causes_no_poll_before_the_trigger(wake: Wake) -> None:
    wake.interrupts = iter([lambda: 0.1])

    await_next_poll(make_stream(wake))

    assert wake.waits == pytest.approx([TRIGGER, TRIGGER - 0.1])


def test_failure_is_seen_without_a_wait(wake: Wake) -> None:
    await_next_poll(make_stream(wake, failure=ValueError()))

    assert wake.waits == []


def test_end_of_a_drain_ends_the_wait(wake: Wake) -> None:
    stream = make_stream(wake)

    def drain() -> float:
        stream.drained = True
        return 0.1

    wake.interrupts = iter([drain])

    await_next_poll(stream)

    assert wake.waits == [TRIGGER]

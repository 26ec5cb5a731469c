"""Times at which the driver's main thread polls the log again."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

from cutover.settings import Settings, StreamSettings
from cutover.streaming import reader

TRIGGER = 0.4


def pair() -> tuple[Any, Any]:
    settings = Settings(stream=StreamSettings(trigger_seconds=TRIGGER))
    context = SimpleNamespace(settings=settings, stopping=threading.Event())
    return cast("Any", context), cast("Any", SimpleNamespace(wake=threading.Event(), failure=None, drained=False))


def waited(context: Any, stream: Any) -> float:
    began = time.monotonic()
    reader._await_next_poll(context, stream)
    return time.monotonic() - began


def test_epoch_causes_no_poll_before_the_trigger() -> None:
    context, stream = pair()
    stream.wake.set()

    assert waited(context, stream) >= TRIGGER


def test_failure_is_seen_immediately() -> None:
    context, stream = pair()
    stream.failure = ValueError()

    assert waited(context, stream) < TRIGGER


def test_end_of_a_drain_is_seen_immediately() -> None:
    context, stream = pair()

    def end() -> None:
        stream.drained = True
        stream.wake.set()

    threading.Timer(0.05, end).start()

    assert waited(context, stream) < TRIGGER

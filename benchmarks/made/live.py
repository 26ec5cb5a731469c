"""Events as they come about: a producer at a steady rate, in a thread, and the moment of each produce call."""

import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.made import events
from cutover.settings import Settings

TICK_SECONDS = 0.01

Encode = Callable[[int, int], bytes]
"""From the number of an event and its time (milliseconds) to its bytes."""


class Live:
    """A producer whose rate can be changed while it runs; event n goes to partition n % 4, at offset n // 4."""

    def __init__(
        self, settings: Settings, topic: str, *, keep_times: bool = False, encode: Encode = events.live
    ) -> None:
        self._topic, self._encode = topic, encode
        self._sender = events.producer(settings, **{"linger.ms": 5})
        self._rate, self._ended = 0.0, threading.Event()
        self._times: list[float] | None = [] if keep_times else None
        self.sent = 0
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    @property
    def times(self) -> Sequence[float]:
        """Return when (monotonic seconds) `produce` was called for each event."""
        return self._times or ()

    def at(self, rate: float) -> None:
        """Set the events a second."""
        self._rate = rate

    def end(self) -> None:
        """Stop, and wait until the log has taken every event.

        Raises:
            AssertionError: It has not.
        """
        self._ended.set()
        self._thread.join()
        left = self._sender.flush(60)
        if left:
            msg = f"Topic `{self._topic}`: expected every event taken, {left} were not."
            raise AssertionError(msg)

    def _run(self) -> None:
        due, before = 0.0, time.monotonic()
        while not self._ended.wait(TICK_SECONDS):
            now = time.monotonic()
            due, before = due + self._rate * (now - before), now
            # What a slow machine cannot send is not made up for: the rate that was reached is what is reported.
            due = min(due, self._rate)
            millis = int(time.time() * 1_000)
            while due >= 1:
                self._send(millis)
                due -= 1
            self._sender.poll(0)

    def _send(self, millis: int) -> None:
        number = self.sent
        if self._times is not None:
            self._times.append(time.monotonic())
        value = self._encode(number, millis)
        events.put(self._sender, self._topic, value, partition=number % events.PARTITIONS, millis=millis)
        self.sent = number + 1

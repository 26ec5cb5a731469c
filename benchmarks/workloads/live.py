"""Live events: a producer with a steady rate, in a thread, with the time of each produce call."""

import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.workloads import events
from cutover.settings import Settings

TICK_SECONDS = 0.01

Encode = Callable[[int, int], bytes]
"""Function of an event's number and its time (milliseconds) that returns its bytes."""


class Live:
    """Producer with an adjustable rate; event n goes to partition n % 4, at offset n // 4."""

    def __init__(
        self, settings: Settings, topic: str, *, keep_times: bool = False, encode: Encode = events.encode_live_event
    ) -> None:
        self._topic, self._encode = topic, encode
        self._sender = events.make_producer(settings, **{"linger.ms": 5})
        self._rate, self._ended = 0.0, threading.Event()
        self._times: list[float] | None = [] if keep_times else None
        self.sent = 0
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    @property
    def times(self) -> Sequence[float]:
        """Times of the produce calls (monotonic seconds), by event."""
        return self._times or ()

    def set_rate(self, rate: float) -> None:
        """Set the number of events per second."""
        self._rate = rate

    def end(self) -> None:
        """Stop, and wait until all events are acknowledged.

        Raises:
            AssertionError: Not all of them were.
        """
        self._ended.set()
        self._thread.join()
        unsent = self._sender.flush(60)
        if unsent:
            msg = f"Topic `{self._topic}`: expected all events to be acknowledged, {unsent} were not."
            raise AssertionError(msg)

    def _run(self) -> None:
        due, last_time = 0.0, time.monotonic()
        while not self._ended.wait(TICK_SECONDS):
            now = time.monotonic()
            due, last_time = due + self._rate * (now - last_time), now
            # Events that a slow machine could not send are dropped: the reported rate is the one that was reached.
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
        events.send_record(self._sender, self._topic, value, partition=number % events.PARTITIONS, millis=millis)
        self.sent = number + 1

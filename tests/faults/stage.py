"""Stage of the random mode: one rig, input that never stops, and a driver that is restarted whenever it ends."""

import threading
import time
from collections.abc import Callable

from tests.faults.running.child import Child
from tests.faults.running.rig import Rig
from tests.integration.streaming.rig import Event

PAUSE_SECONDS = 0.25
RESTART_SECONDS = 1.0


class Stage:
    """Input and supervisor in separate threads; each drawing of events holds the lock."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.driver: Child | None = None
        self._topic_id = rig.client.topic_id(rig.topic)
        self.starts, self.ends = 0, list[int]()
        self.broker_up = threading.Event()
        self.broker_up.set()
        self.failure: BaseException | None = None
        self._over, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._guarded, args=(body,)) for body in (self._feed, self._supervise)]

    def draw(self, count: int, *, late: float = 0.02) -> list[Event]:
        """Return the next events of the seed, over the two partitions that existed from the beginning."""
        with self._lock:
            return self.rig.draw(count, late=late, partitions=(0, 1))

    def send(self, events: Callable[[], list[Event]]) -> None:
        """Send events; a broker that is away lets this wait."""
        self.rig.send(events(), may_fail=True, topic_id=self._topic_id)

    def start(self) -> None:
        """Let input and driver run."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End input and driver; the driver as an operator would."""
        self._over.set()
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive()
        if self.driver is not None and self.driver.process.poll() is None:
            self.ends.append(self.driver.stop())

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 -- the main thread fails by it
            self.failure = error

    def _feed(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            self.send(lambda: self.draw(5))

    def _supervise(self) -> None:
        while not self._over.is_set():
            child = self.driver
            if child is None or child.process.poll() is not None:
                if child is not None:
                    self.ends.append(child.wait(1))
                time.sleep(RESTART_SECONDS)  # as a supervisor of processes would wait
                self.driver = self.rig.start()
                self.starts += 1
            self._over.wait(PAUSE_SECONDS)

"""A driver in a thread of this process, on its Spark."""

import threading

from cutover.clock import Clock, Probe, SystemClock, silent
from cutover.pipeline_lake import PipelineLake
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import run_folder

WITHIN = 90.0


class Background:
    """A driver in a thread: its stop file ends it, and its failure is kept for the test."""

    def __init__(
        self,
        lake: PipelineLake,
        *,
        clock: Clock | None = None,
        probe: Probe = silent,
        until: driver.Until = "forever",
    ) -> None:
        self._stop = run_folder(lake.settings, lake.name) / "stop"
        self.failure: BaseException | None = None

        def body() -> None:
            try:
                driver.run_driver(lake, until=until, clock=clock or SystemClock(), probe=probe)
            except BaseException as error:  # noqa: BLE001 -- handed to the test
                self.failure = error

        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Ask it to stop and wait for its end."""
        self._stop.touch()
        self.join()

    def join(self, timeout: float = WITHIN) -> None:
        """Wait for its end."""
        self.thread.join(timeout)
        assert not self.thread.is_alive()

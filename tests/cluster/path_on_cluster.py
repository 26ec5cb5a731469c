"""One path on a cluster, in a separate process; reports when executors are registered and when one runs a task.

Argument: JSON with `home`, `bootstrap`, `topic`, `cap`, `path` (`stream` or `batch`), `spark`, `marker` (a file).
Lines of the marker: `ready` (executors registered; waits for `<marker>.go`), `running:<port>` (the executor that
listens there runs a task).
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutover import events
from cutover.batch import recompute
from cutover.clock import Point
from cutover.engine import spark
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings, SparkSettings, StreamSettings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.support.suite.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = 1  # the one that loses an executor
WITHIN = 120.0


class Signals:
    """Talks with the test by two files."""

    def __init__(self, session: "SparkSession", marker: Path, executors: int) -> None:
        self._session, self._marker, self._executors = session, marker, executors

    def __call__(self, point: Point, epoch: int) -> None:
        """Stop before the wanted epoch's job."""
        if (point, epoch) == ("epoch.planned", EPOCH):
            self.arm()

    def arm(self) -> None:
        """Wait for the go file; then watch for the first task."""
        until(lambda: self._registered() >= self._executors, WITHIN)
        self._write_line("ready")
        until(Path(f"{self._marker}.go").exists, WITHIN)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            busy = [info for info in self._infos() if info.numRunningTasks()]
            if busy:
                self._write_line(f"running:{busy[0].port()}")
                return
            time.sleep(0.02)

    def _registered(self) -> int:
        return len(self._infos()) - 1  # the driver is one of them

    def _infos(self) -> list[Any]:
        return list(self._session.sparkContext._jsc.sc().statusTracker().getExecutorInfos())

    def _write_line(self, word: str) -> None:
        with self._marker.open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")
            file.flush()
            os.fsync(file.fileno())


def main() -> None:
    """Run the path."""
    arguments = json.loads(sys.argv[1])
    events.configure(pretty=False)
    settings = Settings(
        home=Path(arguments["home"]),
        kafka=KafkaSettings(bootstrap_servers=arguments["bootstrap"]),
        spark=SparkSettings.model_validate(arguments["spark"]),
        stream=StreamSettings(trigger_seconds=0.05, heartbeat_seconds=0.2),
    )
    pipeline = rig.pipeline(arguments["topic"], cap=arguments["cap"])
    signals = Signals(spark.session(settings, app=arguments["path"]), Path(arguments["marker"]), executors=2)
    lake = PipelineLake(settings, pipeline)
    if arguments["path"] == "stream":
        driver.run_driver(lake, until="drain", probe=signals)
    else:
        signals.arm()
        recompute.recompute_windows(lake)


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)

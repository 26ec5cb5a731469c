"""A driver that stops at a named point: writes a marker, and waits there to be killed."""

import json
import os
import sys
import time
from pathlib import Path

from cutover import events
from cutover.errors import CutoverError
from cutover.probe import Point
from cutover.settings import Kafka, Settings, Stream
from streaming import driver
from tests.integration.streaming import rig

FOREVER = 3600.0


class Block:
    """Writes `point epoch pid` and blocks at one point of one epoch."""

    def __init__(self, wanted: str, epoch: int, marker: Path) -> None:
        self._wanted, self._epoch, self._marker = wanted, epoch, marker

    def __call__(self, point: Point, epoch: int) -> None:
        """Block here, if this is the place."""
        if point == self._wanted and epoch == self._epoch:
            with self._marker.open("w", encoding="utf-8") as file:
                file.write(f"{point} {epoch} {os.getpid()}\n")
                file.flush()
                os.fsync(file.fileno())
            time.sleep(FOREVER)


def main() -> int:
    """Drive the tests' pipeline as the arguments say."""
    told = json.loads(sys.argv[1])
    events.configure(pretty=False)
    settings = Settings(
        home=Path(told["home"]),
        kafka=Kafka(bootstrap_servers=told["bootstrap"]),
        stream=Stream(trigger_seconds=0.05, heartbeat_seconds=0.2),
    )
    block = Block(told["point"], told["epoch"], Path(told["marker"]))
    try:
        return driver.run(settings, rig.pipeline(told["topic"], cap=told["cap"]), probe=block)
    except CutoverError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)

"""A run of batch in a process of its own, that kills itself at a point. Arguments: home, broker, topic, point."""

import os
import signal
import sys
from pathlib import Path

from batch.recompute import run
from cutover.probe import Point
from cutover.settings import Kafka, Settings, Spark
from tests.integration.batch.lab import pipeline_of


def main(home: str, bootstrap: str, topic: str, wanted: str) -> None:
    def kill(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        if point == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = Spark(master="local[1]", driver_memory="1g")
    settings = Settings(home=Path(home), kafka=Kafka(bootstrap_servers=bootstrap), spark=spark)
    run(settings, pipeline_of(topic), probe=kill)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Driver of the soak test, in a separate process that stops after a number of epochs.

python -m benchmarks.soak.driver --home HOME --topic TOPIC --epochs N --bootstrap HOST:PORT
"""

import argparse
import os
from pathlib import Path

from benchmarks.soak import workload
from cutover import events
from cutover.clock import Point
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings, SparkSettings, StreamSettings
from cutover.streaming import driver
from cutover.streaming.process.heartbeat import run_folder

TRIGGER_SECONDS = 0.05  # almost no pause between micro-batches, for many epochs in little time


def settings_of(home: Path, bootstrap: str) -> Settings:
    """Make the settings of the soak test: the defaults, except for the pause between epochs."""
    return Settings(
        home=home,
        kafka=KafkaSettings(bootstrap_servers=bootstrap),
        spark=SparkSettings(master="local[1]", driver_memory="1g"),
        stream=StreamSettings(trigger_seconds=TRIGGER_SECONDS),
    )


def main() -> None:
    """Run the driver, and exit without waiting for py4j's threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    args = parser.parse_args()
    events.configure(pretty=False)
    settings, pipeline = settings_of(args.home, args.bootstrap), workload.pipeline(args.topic)
    notes, stop = workload.Notes(args.home / "notes.jsonl"), run_folder(settings, pipeline.name) / "stop"

    def probe(point: Point, epoch: int) -> None:
        notes(point, epoch)
        if point == "epoch.committed" and epoch + 1 >= args.epochs:
            stop.touch()

    os._exit(driver.run_driver(PipelineLake(settings, pipeline), probe=probe))


if __name__ == "__main__":
    main()

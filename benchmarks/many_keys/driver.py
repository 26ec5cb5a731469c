"""Measured driver, in a separate process.

python -m benchmarks.many_keys.driver --home HOME --bootstrap HOST:PORT --epoch-rows N --fold-every N
"""

import argparse
import os
from pathlib import Path

from benchmarks.soak.workload import Notes
from cutover import events
from cutover.definition import Count, Fixed, Lateness, Max, Pipeline, Sum, Topic
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings, SparkSettings, StreamSettings
from cutover.streaming import driver

TOPIC = "many"


def pipeline(epoch_rows: int) -> Pipeline:
    """Make the definition, with one window of a year, which stays open, per key."""
    return Pipeline(
        name="many",
        source=Topic(
            name=TOPIC,
            schema="id bigint NOT NULL, k string, v bigint, at timestamp NOT NULL",
            event_time="at",
            time_format="millis",
        ),
        key=("k",),
        window=Fixed(days=365),
        measures={"n": Count(), "total": Sum("v"), "worst": Max("v"), "ids": Sum("id")},
        lateness=Lateness(out_of_orderness="1 minute", allowed="0 seconds", max_ahead="3650 days"),
        max_rows_per_epoch=epoch_rows,
    )


def settings_of(home: Path, bootstrap: str, fold_every: int) -> Settings:
    """Make the settings: the defaults, except that epochs are folded earlier."""
    return Settings(
        home=home,
        kafka=KafkaSettings(bootstrap_servers=bootstrap),
        spark=SparkSettings(master="local[2]", driver_memory="1g"),
        stream=StreamSettings(trigger_seconds=0.1, fold_every=fold_every),
    )


def main() -> None:
    """Run the driver until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--epoch-rows", type=int, required=True)
    parser.add_argument("--fold-every", type=int, required=True)
    args = parser.parse_args()
    events.configure(pretty=False)
    settings = settings_of(args.home, args.bootstrap, args.fold_every)
    os._exit(
        driver.run_driver(PipelineLake(settings, pipeline(args.epoch_rows)), probe=Notes(args.home / "notes.jsonl"))
    )


if __name__ == "__main__":
    main()

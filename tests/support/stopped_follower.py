"""A follower whose whole process group, Spark's JVM included, gets SIGTERM once an epoch is planned.

python -m tests.support.stopped_follower HOME BOOTSTRAP TOPIC FOLDER
"""

import os
import signal
import sys
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from cutover.clock import Point
from cutover.pipeline_lake import PipelineLake
from cutover.settings import KafkaSettings, Settings
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import fast
from tests.support.followed_jobs import JobTopic


def main(home: str, bootstrap: str, topic: str, folder: str) -> int:
    """Follow a job that has no session here, and return the exit code."""
    settings = fast(Settings(home=Path(home), kafka=KafkaSettings(bootstrap_servers=bootstrap)))
    job = JobTopic(spark=cast("SparkSession", None), settings=settings, topic=topic, place=Path(folder))

    def stop_group(point: Point, epoch: int) -> None:
        if (point, epoch) == ("epoch.planned", 0):
            os.killpg(0, signal.SIGTERM)

    return run_driver(PipelineLake(settings, job.windows("update")), probe=stop_group)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

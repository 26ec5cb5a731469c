"""A job as a team writes it, in a process that is killed after a batch has written its table and before it commits.

python -m tests.support.killed_job BOOTSTRAP TOPIC FOLDER BATCH
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from cutover.engine import spark
from cutover.settings import Settings
from tests.support.jobs import count_windows, merge_into, read_topic, run_job


def main(bootstrap: str, topic: str, folder: str, last_batch: str) -> None:
    """Run the job until the batch is written, then end the process as a crash does."""
    settings, place = Settings(home=Path(folder) / "home", kafka={"bootstrap_servers": bootstrap}), Path(folder)
    session = spark.session(settings, app="killed-job")
    merge = merge_into(f"{place}/table")

    def merge_and_die(rows: DataFrame, batch: int) -> None:
        merge(rows, batch)
        if batch == int(last_batch):
            os.kill(os.getpid(), signal.SIGKILL)

    run_job(count_windows(read_topic(session, settings, topic, rows=20)), place, "update", merge_and_die)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A job as a team writes it, in a process that is killed after a batch has written its table and before it commits.

python -m tests.support.killed_job BOOTSTRAP TOPIC FOLDER BATCH [pairs | records | sessions]
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from cutover.engine import spark
from cutover.settings import Settings
from tests.support.jobs import (
    PAIR,
    SESSION_AND_KEY,
    Write,
    append_to,
    clean_records,
    count_sessions,
    count_windows,
    join_topics,
    merge_into,
    read_topic,
    run_job,
)


def main(bootstrap: str, topic: str, folder: str, last_batch: str, shape: str = "windows") -> None:
    """Run the job until the batch is written, then end the process as a crash does."""
    settings, place = Settings(home=Path(folder) / "home", kafka={"bootstrap_servers": bootstrap}), Path(folder)
    session = spark.session(settings, app="killed-job")
    table, records = f"{place}/table", read_topic(session, settings, topic, rows=20)
    clicks = read_topic(session, settings, f"{topic}-right", rows=20)
    shapes: dict[str, tuple[Write, Callable[[DataFrame], DataFrame], str]] = {
        "pairs": (merge_into(table, on=PAIR), lambda shown: join_topics(shown, clicks), "append"),
        "records": (append_to(table), clean_records, "update"),
        "sessions": (merge_into(table, on=SESSION_AND_KEY), count_sessions, "append"),
        "windows": (merge_into(table), count_windows, "update"),
    }
    write, transform, mode = shapes[shape]

    def write_and_die(rows: DataFrame, batch: int) -> None:
        write(rows, batch)
        if batch == int(last_batch):
            os.kill(os.getpid(), signal.SIGKILL)

    run_job(transform(records), place, mode, write_and_die)


if __name__ == "__main__":
    main(*sys.argv[1:])

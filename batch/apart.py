"""Windows recomputed in separate tables that are never served: an audit compares the stream with them.

The same run as of `cutover batch`, from the log alone: earlier runs are neither read nor changed.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyarrow import fs

from cutover import probe as probes
from cutover.batch.recompute import compute_and_publish, open_run
from cutover.clock import Clock
from cutover.engine import spark
from cutover.lake.batch_runs import Range
from cutover.lake.control import pins, versions
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

FOLDER = "audits"


@contextmanager
def recompute_apart(lake: PipelineLake, windows: Sequence[Range], clock: Clock) -> Iterator[Settings]:
    """Compute closed windows up to the newest epoch, and yield settings under which the batch tables hold them alone.

    A record of a window bears a log timestamp of at least its start minus `max_ahead`, or it is none of the window: so
    nothing before that is read. The tables are deleted afterwards.

    Args:
        lake: A pipeline with aligned windows.
        windows: `[start, end)` in microseconds, one or more.
        clock: For the run's times.

    Raises:
        CutoverError: As of a batch run.
    """
    spark.make_spark_conf(lake.settings)
    uri = f"{lake.version_uri()}/{FOLDER}/{uuid.uuid4().hex}"
    apart = lake.settings.with_batch_tables(uri)
    begins_at = min(start for start, _ in windows) - lake.pipeline.lateness.max_ahead_micros
    opened = open_run(PipelineLake(apart, lake.pipeline), None, tuple(windows), clock, anew=True, begins_at=begins_at)
    try:
        with opened as work:
            completed = compute_and_publish(work, probes.silent, clock)
        try:
            yield apart
        finally:
            version = versions.find_current_version(lake)
            if version is not None:
                holder = pins.name_batch_holder(completed.run_id)
                pins.release_pin(lake.settings, version, completed.epoch, holder=holder, now=clock.now())
    finally:
        _remove(uri)


def _remove(uri: str) -> None:
    system, path = fs.FileSystem.from_uri(uri)
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)

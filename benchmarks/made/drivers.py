"""A detached driver as Airflow starts it: a process of its own with the settings of an installation."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.made.triggers import until
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.settings import Settings
from cutover.streaming.process import detached

PATIENCE = 240.0  # seconds; the machine may be busy with other work


@contextmanager
def driving(settings: Settings, pipeline: Pipeline) -> Iterator[None]:
    """Run a driver until the block ends; it is asked to stop then, after the epoch in hand."""
    process = started(settings, pipeline)
    try:
        until(
            lambda: process.poll() is not None or detached.find_alive(settings, pipeline.name) is not None,
            within=PATIENCE,
        )
        yield
        detached.stop(settings, pipeline.name, timeout=PATIENCE)
    finally:
        if process.poll() is None:
            killed(process)


def started(settings: Settings, pipeline: Pipeline) -> subprocess.Popen[bytes]:
    """Start a driver, and do not wait for it."""
    file = detached.log_file(settings, pipeline.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "cutover.streaming", pipeline.name],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=detached.environment(settings),
        )


def killed(process: subprocess.Popen[bytes]) -> None:
    """End a driver and its JVM at once, by SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def newest(settings: Settings, pipeline: Pipeline) -> EpochRecord | None:
    """Return the newest epoch's record; None before the first."""
    version = versions.current(settings, pipeline)
    return None if version is None or not delta.exists(version.uri) else EpochLog(version.uri).newest()


def first_epoch(settings: Settings, pipeline: Pipeline) -> None:
    """Wait until something was committed."""
    until(lambda: newest(settings, pipeline) is not None, within=PATIENCE, every=0.1)


def commit_file(settings: Settings, pipeline: Pipeline, number: int) -> Path:
    """Return the file in the table's log that a commit makes."""
    version = versions.current(settings, pipeline)
    if version is None:
        msg = f"Pipeline `{pipeline.name}`: expected an epoch log, found none."
        raise AssertionError(msg)
    return Path(version.uri) / "_delta_log" / f"{number:020}.json"

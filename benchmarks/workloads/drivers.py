"""Detached driver, as Airflow starts it: a separate process with the settings of an installation."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.workloads.triggers import wait_until
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.process import heartbeat

TIMEOUT_SECONDS = 240.0  # seconds; the machine may be busy with other work


@contextmanager
def run_driver(lake: PipelineLake) -> Iterator[None]:
    """Run a driver until the block ends, and stop it after its current epoch."""
    process = start_driver(lake)
    try:
        wait_until(
            lambda: process.poll() is not None or heartbeat.find_alive(lake.settings, lake.name) is not None,
            timeout=TIMEOUT_SECONDS,
        )
        yield
        heartbeat.stop_driver(lake.settings, lake.name, timeout=TIMEOUT_SECONDS)
    finally:
        if process.poll() is None:
            kill_driver(process)


def start_driver(lake: PipelineLake) -> subprocess.Popen[bytes]:
    """Start a driver without waiting for it."""
    file = heartbeat.find_log_file(lake.settings, lake.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as log_file:
        return subprocess.Popen(
            [sys.executable, "-m", "cutover.streaming", lake.name],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env=heartbeat.make_environment(lake.settings),
        )


def kill_driver(process: subprocess.Popen[bytes]) -> None:
    """Kill a driver and its JVM by SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_latest_epoch(lake: PipelineLake) -> EpochRecord | None:
    """Read the record of the latest epoch; None before the first."""
    version = versions.find_current_version(lake)
    return None if version is None or not delta.exists(version.uri) else EpochLog(version.uri).newest()


def wait_for_first_epoch(lake: PipelineLake) -> None:
    """Wait until the first epoch is committed."""
    wait_until(lambda: read_latest_epoch(lake) is not None, timeout=TIMEOUT_SECONDS, interval=0.1)


def commit_file(lake: PipelineLake, number: int) -> Path:
    """Return the path of a commit in the Delta log of the epoch log."""
    version = versions.find_current_version(lake)
    if version is None:
        msg = f"Pipeline `{lake.name}`: expected an epoch log, found none."
        raise AssertionError(msg)
    return Path(version.uri) / "_delta_log" / f"{number:020}.json"

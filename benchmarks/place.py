"""Temporary installation of a benchmark run: broker, home and settings."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from cutover import files
from cutover.infra.broker import server
from cutover.infra.processes import supervisor
from cutover.infra.processes.family import end_with_parent
from cutover.settings import Settings, SparkSettings

READY_SECONDS = 90.0
STOP_SECONDS = 20.0


@contextmanager
def installed(
    bootstrap: str | None = None, *, keep: Path | None = None, driver_memory: str = "4g"
) -> Iterator[Settings]:
    """Run a broker in a separate home, and yield the settings of this installation.

    Args:
        bootstrap: Address of a running broker; None: start one.
        keep: Home that is kept with its log and lakes; None: a temporary one.
        driver_memory: Spark's driver memory, the same for all compared programs.
    """
    temporary = tempfile.TemporaryDirectory(prefix="cutover-benchmarks-", ignore_cleanup_errors=True)
    with nullcontext(keep) if keep is not None else temporary as folder:
        home = Path(folder).resolve()
        settings = Settings(
            home=home, pipelines=home / "pipelines", spark=SparkSettings(master="local[2]", driver_memory=driver_memory)
        )
        if bootstrap is not None:
            files.write_json(settings.run_dir / "broker.json", {"bootstrap_servers": bootstrap})
            yield settings
            return
        with _broker(home):
            yield settings


@contextmanager
def _broker(home: Path) -> Iterator[None]:
    broker_ports = supervisor.choose_ports_for_start(home / "run" / "ports.json", names=("broker", "controller"))
    server.prepare_broker(home, broker_ports)
    with (home / "kafka" / "stdout.log").open("wb") as log_file:
        process = subprocess.Popen(
            server.make_broker_command(home),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            # The broker must end with a killed run.
            preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 -- one call to the kernel
        )
    try:
        server.wait_ready(home, broker_ports, timeout=READY_SECONDS, is_alive=lambda: process.poll() is None)
        server.write_address(home / "run", broker_ports)
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, signal_number)
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue

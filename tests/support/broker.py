"""A real broker for one test session, as a child in a process group of its own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra import broker, ports

READY_SECONDS = 90.0
STOP_SECONDS = 20.0


@contextmanager
def running_broker(home: Path) -> Iterator[ports.Ports]:
    """Run a broker in `home` on free ports for as long as the block lasts."""
    chosen = ports.settle(home / "run" / "ports.json", needed=("broker", "controller"))
    broker.prepare(home, chosen)
    with (home / "kafka" / "stdout.log").open("wb") as out:
        process = subprocess.Popen(
            broker.command(home), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        broker.wait_ready(home, chosen, within=READY_SECONDS, alive=lambda: process.poll() is None)
        broker.write_address(home / "run", chosen)
        yield chosen
    finally:
        stop_group(process)


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own group, and the group with it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue

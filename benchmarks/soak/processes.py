"""Processes beside the one that measures: modules of the benchmarks, and a broker; they end with it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from cutover.infra.processes.child import end_with_parent
from tests.support.servers.broker import running_broker


@contextmanager
def child(module: str, out: Path, arguments: Sequence[str]) -> Iterator[psutil.Popen]:
    """Run a module in a process of its own, which is ended with the block."""
    with out.open("ab") as file:
        process = psutil.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            preexec_fn=end_with_parent,
        )
    try:
        yield process
    finally:
        if process.is_running():
            process.terminate()
        process.wait(60)


@contextmanager
def broker(home: Path, running: str | None) -> Iterator[str]:
    """Return the address of a broker: one that runs, or one of the soak's own."""
    if running:
        yield running
        return
    with running_broker(home / "broker") as ports:
        yield f"127.0.0.1:{ports.broker}"

"""Child processes of a measurement: modules of the benchmarks, and a broker; they end with their parent."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from cutover.infra.processes.family import end_with_parent
from tests.support.servers.broker import running_broker


@contextmanager
def child(module: str, output_path: Path, arguments: Sequence[str]) -> Iterator[psutil.Popen]:
    """Run a module in a separate process, which is terminated with the block."""
    with output_path.open("ab") as file:
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
    """Yield the address of the running broker, or of one that runs as long as the block."""
    if running:
        yield running
        return
    with running_broker(home / "broker") as ports:
        yield f"127.0.0.1:{ports.broker}"

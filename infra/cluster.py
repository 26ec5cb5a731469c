"""Spark standalone cluster on this machine, from the installed package: a master and workers, all on loopback.

Both paths run on it in several processes, with executors that can fail independently. A real cluster needs one setting
(`spark.master`); this one is for experiments and tests.
"""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.processes import family
from cutover.infra.processes.ports import LOOPBACK, choose
from cutover.process import Identity, identify

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
REGISTERED = "Successfully registered with master"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Running cluster: address of its master, its workers, and the cores of each."""

    master: str
    workers: tuple[Identity, ...]
    cores: int  # of one worker
    folder: Path  # logs and the workers' folders

    def conf(self) -> Mapping[str, str]:
        """Make the Spark configuration of an application on this cluster, for `spark.conf` in the settings."""
        total = self.cores * len(self.workers)
        return {
            "spark.cores.max": str(total),
            "spark.executor.memory": "1g",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
        }


@contextmanager
def running(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1500m") -> Iterator[Cluster]:
    """Run a master and workers; they end with the block.

    Args:
        folder: Folder for logs, work folders and Spark's scratch space.
        workers: Number of workers, each with `cores` and `memory`.
        cores: Cores per worker.
        memory: Memory per worker, in Spark's notation.

    Raises:
        CutoverError: A process did not start; the message names its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = choose()
    address = f"spark://{LOOPBACK}:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(_spawn(folder, "master", MASTER, "--port", str(port)))
        _wait_ready(processes[0], folder / "master.log", lambda: _is_listening(port))
        for number in range(workers):
            name = f"worker-{number}"
            arguments = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / name), address)
            processes.append(_spawn(folder, name, WORKER, *arguments))
        for number, process in enumerate(processes[1:]):
            log = folder / f"worker-{number}.log"
            _wait_ready(process, log, functools.partial(_has_registered, log))
        identities = tuple(identity for p in processes[1:] if (identity := identify(p.pid)) is not None)
        yield Cluster(master=address, workers=identities, cores=cores, folder=folder)
    finally:
        _stop(processes)


def _spawn(folder: Path, name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
    home = _spark_home()
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,  # the web pages of master and workers too
        "SPARK_LOCAL_DIRS": str(scratch),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), main, "--host", LOOPBACK, "--webui-port", "0", *arguments]
    with (folder / f"{name}.log").open("wb") as log_file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            env=environment,
            start_new_session=True,
        )


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        msg = "Spark is not installed: expected the package `pyspark`.\nHint: run `make setup`."
        raise CutoverError(msg)
    return Path(spec.origin).parent


def _wait_ready(process: "subprocess.Popen[bytes]", log: Path, is_ready: Callable[[], bool]) -> None:
    def poll() -> bool | None:
        return False if process.poll() is not None else is_ready() or None

    if poll_until(poll, timeout=READY_SECONDS, interval=family.POLL_SECONDS):
        return
    state = "no answer" if process.poll() is None else f"its end with exit code {process.returncode}"
    msg = f"Spark cluster, `{log.stem}`: expected it to be ready within {READY_SECONDS:.0f} s, got {state}."
    raise CutoverError(msg + f"\nHint: its log is `{log}`.")


def _has_registered(log: Path) -> bool:
    return REGISTERED in log.read_text(encoding="utf-8", errors="replace")


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _stop(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Stop the workers with their executors, then the master."""
    for process in reversed(processes):
        leader = identify(process.pid)
        members = [] if leader is None else [*family.session_of(leader), *family.family(leader)]
        family.stop(members, timeout=STOP_SECONDS)
        process.wait()

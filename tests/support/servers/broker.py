"""Real brokers for tests: children in separate process groups, which end with the tests however those end."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutover.infra.broker import server
from cutover.infra.processes import supervisor
from cutover.infra.processes.family import end_with_parent
from tests.support.suite.quick_spark import QUICK_JVM

READY_SECONDS = 90.0
STOP_SECONDS = 20.0


class Broker:
    """One broker that can be killed, paused and started again on the same port with the same log."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = supervisor.choose_ports_for_start(home / "run" / "ports.json", names=("broker", "controller"))
        self.process: subprocess.Popen[bytes] | None = None
        server.prepare_broker(home, self.ports)

    @property
    def bootstrap(self) -> str:
        """Return `host:port`."""
        return server.format_broker_address(self.ports)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.home / "kafka" / "stdout.log").open("ab") as stdout_log:
            self.process = process = subprocess.Popen(
                quick_command(self.home),
                stdin=subprocess.DEVNULL,
                stdout=stdout_log,
                stderr=stdout_log,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 -- one call to the kernel; a killed test run leaves none
            )
        server.wait_ready(self.home, self.ports, timeout=READY_SECONDS, is_alive=lambda: process.poll() is None)
        server.write_address(self.home / "run", self.ports)

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to its group."""
        assert self.process is not None
        os.killpg(self.process.pid, sign)

    def kill(self) -> int:
        """End it by SIGKILL and return its wait status."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        return self.process.wait(STOP_SECONDS)

    def pause(self) -> None:
        """Stop it as SIGSTOP does."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the paused process."""
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            stop_group(self.process)


def quick_command(home: Path) -> list[str]:
    """Return the command of a broker, with the options of a JVM that lives for minutes."""
    java, *arguments = server.make_broker_command(home)
    return [java, *QUICK_JVM, *arguments]


@contextmanager
def running_broker(home: Path) -> Iterator[supervisor.Ports]:
    """Run a broker in `home` on free ports for as long as the block lasts."""
    broker = Broker(home)
    try:
        broker.start()
        yield broker.ports
    finally:
        broker.stop()


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its own group, and the group with it; a paused one too."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, sign)
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue

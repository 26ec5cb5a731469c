"""Ports of one installation, on the loopback address, chosen at the first start and stored."""

import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import psutil

from cutover import files
from cutover.errors import CutoverError

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections, so that the ports remain free while the installation is stopped.
FIRST, LAST = 20_000, 32_000
ATTEMPTS = 200


class PortError(CutoverError):
    """Port of this installation that another program uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """TCP ports of an installation on 127.0.0.1."""

    broker: int
    controller: int
    airflow: int
    used: bool = False  # clients may know the ports, so they must not change silently

    def by_name(self) -> dict[str, int]:
        """Return the port numbers by name, in display order."""
        return {"broker": self.broker, "controller": self.controller, "airflow": self.airflow}


def is_free(port: int) -> bool:
    """Check that a server could listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(*, free: Callable[[int], bool] = is_free, avoid: Iterable[int] = ()) -> int:
    """Choose a random free port on loopback that is not among `avoid`.

    Raises:
        PortError: No free port was found.
    """
    excluded = set(avoid)
    for _ in range(ATTEMPTS):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if port not in excluded and free(port):
            return port
    msg = f"No free port on {LOOPBACK}: tried {ATTEMPTS} between {FIRST} and {LAST}.\nHint: `ss -ltn` lists them."
    raise PortError(msg)


def fresh(*, free: Callable[[int], bool] = is_free) -> Ports:
    """Choose three different free ports."""
    broker = choose(free=free)
    controller = choose(free=free, avoid=(broker,))
    return Ports(broker=broker, controller=controller, airflow=choose(free=free, avoid=(broker, controller)))


def load_ports(path: Path) -> Ports | None:
    """Read the stored ports; None before the first start.

    Raises:
        PortError: The file is invalid.
    """
    raw = files.read_json_file(path)
    if raw is None:
        return None
    numbers = {f.name: raw.get(f.name) for f in fields(Ports) if f.name != "used"}
    if not all(isinstance(n, int) for n in numbers.values()):
        msg = f"Ports of this installation, `{path}`: expected a number for each of {sorted(numbers)}, got {numbers}."
        msg += "\nHint: remove the file; `cutover up` then chooses new ports."
        raise PortError(msg)
    return Ports(**{name: int(str(n)) for name, n in numbers.items()}, used=raw.get("used") is True)


def save(path: Path, ports: Ports) -> None:
    """Store the ports."""
    files.write_json(path, asdict(ports))


def mark_used(path: Path, ports: Ports) -> None:
    """Store that clients may know these ports."""
    save(path, replace(ports, used=True))


def choose_for_start(path: Path, *, names: Iterable[str], free: Callable[[int], bool] = is_free) -> Ports:
    """Return the ports for a start: the stored ones, or new ones if a stored port is in use and clients know none.

    Args:
        path: File with the stored ports (`ports.json`).
        names: Names of the ports that are about to be opened.
        free: Returns True if a port can be opened.

    Raises:
        PortError: Another program uses a port that clients may know.
    """
    ports = load_ports(path)
    occupied = [] if ports is None else [name for name in names if not free(ports.by_name()[name])]
    if ports is None or (occupied and not ports.used):
        ports = fresh(free=free)
        save(path, ports)
    elif occupied:
        raise PortError(_describe_occupied(path, ports, occupied), runbook="PortInUse")
    return ports


def _describe_occupied(path: Path, ports: Ports, names: list[str]) -> str:
    numbers = ports.by_name()
    lines = [f"  {name}: port {numbers[name]} is used by {holder(numbers[name])}" for name in names]
    return (
        f"A port of this installation (`{path}`) is in use: expected it free on {LOOPBACK}, got:\n"
        + "\n".join(lines)
        + "\nHint: stop that process, or remove the file: `cutover up` then chooses new ports."
    )


def holder(port: int) -> str:
    """Describe the process that listens on a port as `name (pid 123)`, or the command that shows it to root."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        connections = []
    for c in connections:
        if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid:
            try:
                return f"{psutil.Process(c.pid).name()} (pid {c.pid})"
            except psutil.NoSuchProcess:
                break
    return f"a process of another user (`ss -ltnp 'sport = :{port}'` as root shows it)"

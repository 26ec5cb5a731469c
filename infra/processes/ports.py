"""The ports of one installation: chosen once, remembered, on the loopback address only."""

import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import psutil

from cutover import files
from cutover.errors import CutoverError

LOOPBACK = "127.0.0.1"
# Below the range from which Linux gives out ports to outgoing connections, so that ours stay free while we are down.
FIRST, LAST = 20_000, 32_000
ATTEMPTS = 200


class PortError(CutoverError):
    """A port that this installation has used before belongs to another program now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """TCP ports on 127.0.0.1."""

    broker: int
    controller: int
    airflow: int
    used: bool = False  # once clients know them, they do not change silently

    def by_name(self) -> dict[str, int]:
        """Name to number, in the order in which they are shown."""
        return {"broker": self.broker, "controller": self.controller, "airflow": self.airflow}


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(*, free: Callable[[int], bool] = is_free, avoid: Iterable[int] = ()) -> int:
    """Draw a port that is free now, on loopback, and not among `avoid`.

    Raises:
        PortError: None was found.
    """
    taken_ports = set(avoid)
    for _ in range(ATTEMPTS):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if port not in taken_ports and free(port):
            return port
    msg = f"No free port on {LOOPBACK}: tried {ATTEMPTS} between {FIRST} and {LAST}.\nHint: `ss -ltn` lists them."
    raise PortError(msg)


def fresh(*, free: Callable[[int], bool] = is_free) -> Ports:
    """Choose three different ports that nobody listens on now."""
    broker = choose(free=free)
    controller = choose(free=free, avoid=(broker,))
    return Ports(broker=broker, controller=controller, airflow=choose(free=free, avoid=(broker, controller)))


def load(path: Path) -> Ports | None:
    """Return the remembered ports; None before the first start.

    Raises:
        PortError: The file does not hold them.
    """
    raw = files.read_json(path)
    if raw is None:
        return None
    numbers = {f.name: raw.get(f.name) for f in fields(Ports) if f.name != "used"}
    if not all(isinstance(n, int) for n in numbers.values()):
        msg = f"Ports of this installation, `{path}`: expected a number for each of {sorted(numbers)}, got {numbers}."
        msg += "\nHint: remove the file; `cutover up` chooses anew."
        raise PortError(msg)
    return Ports(**{name: int(str(n)) for name, n in numbers.items()}, used=raw.get("used") is True)


def save(path: Path, ports: Ports) -> None:
    """Remember the ports."""
    files.write_json(path, asdict(ports))


def mark_used(path: Path, ports: Ports) -> None:
    """Remember that clients know these ports."""
    save(path, replace(ports, used=True))


def settle(path: Path, *, needed: Iterable[str], free: Callable[[int], bool] = is_free) -> Ports:
    """Return the ports to start with: the remembered ones, or new ones if they were never used and one is taken.

    Args:
        path: The file that remembers them (`ports.json`).
        needed: Names of the ports about to be opened.
        free: Says whether a port can be opened.

    Raises:
        PortError: A port in use before is taken.
    """
    ports = load(path)
    taken_ports = [] if ports is None else [n for n in needed if not free(ports.by_name()[n])]
    if ports is None or (taken_ports and not ports.used):
        ports = fresh(free=free)
        save(path, ports)
    elif taken_ports:
        raise PortError(_format_taken_ports(path, ports, taken_ports), runbook="PortInUse")
    return ports


def _format_taken_ports(path: Path, ports: Ports, names: list[str]) -> str:
    numbers = ports.by_name()
    lines = [f"  {name}: port {numbers[name]} is held by {holder(numbers[name])}" for name in names]
    return (
        f"A port of this installation (`{path}`) is in use: expected it free on {LOOPBACK}, got:\n"
        + "\n".join(lines)
        + "\nHint: stop that process, or remove the file: `cutover up` then chooses new ports."
    )


def holder(port: int) -> str:
    """Return who listens on a port, as `name (pid 123)`, or that this user may not see it."""
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
    return f"a process of another user (`ss -ltnp 'sport = :{port}'` as root names it)"

"""Supervisor of an installation: one supervisord that keeps the broker and Airflow running, and stops them together.

Their ports, on the loopback address, are chosen at the first start and stored.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import xmlrpc.client
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from http.client import HTTPException
from pathlib import Path
from string import Template

import psutil

from cutover import files
from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.processes import family
from cutover.process import Identity, identify, is_alive, parse_identity

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections, so that the ports remain free while the installation is stopped.
FIRST_PORT, LAST_PORT = 20_000, 32_000
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


def is_port_free(port: int) -> bool:
    """Check that a server could listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose_port(*, free: Callable[[int], bool] = is_port_free, avoid: Iterable[int] = ()) -> int:
    """Choose a random free port on loopback that is not among `avoid`.

    Raises:
        PortError: No free port was found.
    """
    excluded = set(avoid)
    for _ in range(ATTEMPTS):
        port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
        if port not in excluded and free(port):
            return port
    msg = f"No free port on {LOOPBACK}: tried {ATTEMPTS} between {FIRST_PORT} and {LAST_PORT}."
    raise PortError(msg + "\nHint: `ss -ltn` lists them.")


def choose_new_ports(*, free: Callable[[int], bool] = is_port_free) -> Ports:
    """Choose three different free ports."""
    broker = choose_port(free=free)
    controller = choose_port(free=free, avoid=(broker,))
    return Ports(broker=broker, controller=controller, airflow=choose_port(free=free, avoid=(broker, controller)))


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


def _save_ports(path: Path, ports: Ports) -> None:
    """Store the ports."""
    files.write_json(path, asdict(ports))


def mark_ports_used(path: Path, ports: Ports) -> None:
    """Store that clients may know these ports."""
    _save_ports(path, replace(ports, used=True))


def choose_ports_for_start(path: Path, *, names: Iterable[str], free: Callable[[int], bool] = is_port_free) -> Ports:
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
        ports = choose_new_ports(free=free)
        _save_ports(path, ports)
    elif occupied:
        raise PortError(_describe_occupied(path, ports, occupied), runbook="PortInUse")
    return ports


def _describe_occupied(path: Path, ports: Ports, names: list[str]) -> str:
    numbers = ports.by_name()
    lines = [f"  {name}: port {numbers[name]} is used by {find_port_holder(numbers[name])}" for name in names]
    return (
        f"A port of this installation (`{path}`) is in use: expected it free on {LOOPBACK}, got:\n"
        + "\n".join(lines)
        + "\nHint: stop that process, or remove the file: `cutover up` then chooses new ports."
    )


def find_port_holder(port: int) -> str:
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


HERE = Path(__file__).parent
SOCKET_LIMIT = 100  # the kernel's limit is 108 bytes
ANSWER_SECONDS = 20.0
SHUTDOWN_SECONDS = 60.0
INACTIVE = {"STOPPED", "EXITED", "FATAL", "UNKNOWN"}


class SupervisorError(CutoverError):
    """Supervisor that does not start or does not answer, or a program that keeps failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Process that the supervisor keeps running."""

    name: str
    group: str
    command: tuple[str, ...]
    stop_seconds: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """State of a program as reported by the supervisor."""

    name: str
    group: str
    state: str  # STARTING, RUNNING, BACKOFF, STOPPING, STOPPED, EXITED, FATAL
    pid: int  # 0 if it is not running
    detail: str

    @property
    def is_active(self) -> bool:
        """True if the program is running, or the supervisor starts or restarts it."""
        return self.state not in INACTIVE


def format_supervisor_config(
    programs: Sequence[Program], *, home: Path, socket: Path, directory: Path, root: bool
) -> str:
    """Format `supervisord.conf`; no program starts before `Supervisor.start_group`."""
    head = Template((HERE / "supervisord.conf").read_text(encoding="utf-8")).substitute(
        socket=_escape(str(socket)),
        directory=_escape(str(directory)),
        logs=_escape(str(home / "logs")),
        run=_escape(str(home / "run")),
        user="user=root\n" if root else "",
    )
    groups: dict[str, list[str]] = {}
    for program in programs:
        groups.setdefault(program.group, []).append(program.name)
    group_sections = [f"[group:{group}]\nprograms={','.join(names)}\n" for group, names in groups.items()]
    program_sections = [_format_section(p, home / "logs" / f"{p.name}.log") for p in programs]
    return "\n".join([head, *program_sections, *group_sections])


def _format_section(program: Program, log: Path) -> str:
    lines = {
        "command": _escape(shlex.join(program.command)),
        "autostart": "false",
        "autorestart": "true",
        "startsecs": "3",
        "startretries": "20",
        "stopasgroup": "true",
        "killasgroup": "true",
        "stopwaitsecs": str(program.stop_seconds),
        "redirect_stderr": "true",
        "stdout_logfile": _escape(str(log)),
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "2",
    }
    return f"[program:{program.name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _escape(value: str) -> str:
    return value.replace("%", "%%")  # supervisor expands %(..)s


class Supervisor:
    """Supervisord of one home, running or not.

    Args:
        home: Absolute path of the installation's home.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._record = home / "run" / "supervisor.json"

    def identity(self) -> Identity | None:
        """Return the identity of the running supervisord; None if it is not running."""
        identity = parse_identity(files.read_json_file(self._record))
        return identity if identity is not None and is_alive(identity) else None

    def launch(self, programs: Sequence[Program], environment: Mapping[str, str]) -> None:
        """Start a detached supervisord with `environment`, without starting its programs.

        Raises:
            SupervisorError: It ended immediately, or does not answer.
        """
        files.make_private_folder(self.home / "logs")
        socket = _socket_folder() / "s"
        conf = self.home / "run" / "supervisord.conf"
        root = os.geteuid() == 0
        text = format_supervisor_config(programs, home=self.home, socket=socket, directory=Path.cwd(), root=root)
        files.write_atomically(conf, text)
        output_path = self.home / "logs" / "supervisord.out"
        with output_path.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-c", str(conf)],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        identity = identify(process.pid)
        record = {**({} if identity is None else asdict(identity)), "socket": str(socket)}
        files.write_json(self._record, record)
        self._wait_answer(process, output_path)

    def states(self) -> list[ProgramState]:
        """List the states of all programs; empty if the supervisor is not running.

        Raises:
            SupervisorError: It is running and does not answer, or is shutting down.
        """
        if self.identity() is None:
            return []
        infos = self._call("getAllProcessInfo")
        if not isinstance(infos, list):
            return []
        return [
            ProgramState(
                name=str(info["name"]),
                group=str(info["group"]),
                state=str(info["statename"]),
                pid=int(info["pid"]),
                detail=str(info["description"]).removeprefix(f"pid {info['pid']}, "),
            )
            for info in infos
        ]

    def start_group(self, group: str) -> None:
        """Start the inactive programs of a group, without waiting for them."""
        for state in self.states():
            if state.group == group and not state.is_active:
                with contextlib.suppress(xmlrpc.client.Fault):  # it was started between the two calls
                    self._call("startProcess", f"{group}:{state.name}", False)  # noqa: FBT003 -- XML-RPC has no names

    def stop_group(self, group: str) -> None:
        """Stop the programs of a group and wait for their end."""
        with contextlib.suppress(SupervisorError, xmlrpc.client.Fault):  # it is ending, or no such group: none to stop
            self._call("stopProcessGroup", group)

    def shut_down(self) -> None:
        """Stop all programs, then the supervisor, and wait for its end; it is killed if it does not end in time."""
        identity = self.identity()
        if identity is not None:
            with contextlib.suppress(SupervisorError, xmlrpc.client.Fault):
                self._call("shutdown")
            family.stop(family.wait_for_end([identity], timeout=SHUTDOWN_SECONDS), timeout=5)

    def leftovers(self) -> list[Identity]:
        """List running processes of the last supervisor's session, the supervisor included."""
        leader = parse_identity(files.read_json_file(self._record))
        return [] if leader is None else family.session_of(leader)

    def delete_record(self) -> None:
        """Delete the record and the socket of an ended supervisor."""
        record = files.read_json_file(self._record)
        if record is not None:
            shutil.rmtree(Path(str(record.get("socket"))).parent, ignore_errors=True)
            self._record.unlink(missing_ok=True)

    def _wait_answer(self, process: subprocess.Popen[bytes], output_path: Path) -> None:
        def has_answered() -> bool | None:
            if process.poll() is not None:
                return False
            with contextlib.suppress(SupervisorError):
                self._call("getState")
                return True
            return None

        if poll_until(has_answered, timeout=ANSWER_SECONDS, interval=0.05):
            return
        output_end = output_path.read_text(encoding="utf-8", errors="replace")[-2000:]
        msg = f"Supervisor of `{self.home}`: expected an answer within {ANSWER_SECONDS:.0f} s, got none.\n{output_end}"
        raise SupervisorError(msg)

    def _call(self, method: str, *arguments: object) -> object:
        from supervisor.xmlrpc import Faults, SupervisorTransport  # noqa: PLC0415 -- `cutover status` does not need it without a supervisor

        record = files.read_json_file(self._record) or {}
        transport = SupervisorTransport(None, None, f"unix://{record.get('socket')}")
        proxy = xmlrpc.client.ServerProxy("http://localhost", transport=transport)
        try:
            return getattr(proxy.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != Faults.SHUTDOWN_STATE:
                raise
            msg = f"Supervisor of `{self.home}`: expected an answer to {method}, but it is shutting down."
            raise SupervisorError(msg + "\nHint: `cutover down` waits for its end.") from fault
        except (OSError, HTTPException, xmlrpc.client.ProtocolError) as error:
            msg = f"Supervisor of `{self.home}`: expected an answer to {method}, got {error}."
            raise SupervisorError(msg + "\nHint: `cutover down`, then `cutover up`.") from error
        finally:
            transport.close()


def _socket_folder() -> Path:
    """Create a private folder with a path that is short enough for a unix socket."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 -- mkdtemp is 0700
        if parent and len(parent) < SOCKET_LIMIT - 20 and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="cutover-", dir=parent))
    msg = (
        "Supervisor: expected a writable folder with a short path for its socket, got none.\nHint: set XDG_RUNTIME_DIR."
    )
    raise SupervisorError(msg)

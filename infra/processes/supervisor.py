"""The supervisor: one supervisord of our own that keeps the broker and Airflow alive, and takes them down as one."""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import xmlrpc.client
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from string import Template

from cutover import files
from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.processes import family
from cutover.process import Identity, identify, is_alive, parse_identity

HERE = Path(__file__).parent
SOCKET_LIMIT = 100  # the kernel takes 108 bytes
ANSWER_SECONDS = 20.0
GONE_SECONDS = 60.0
STOPPING = {"STOPPED", "EXITED", "FATAL", "UNKNOWN"}


class SupervisorError(CutoverError):
    """The supervisor does not start or does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process to keep alive."""

    name: str
    group: str
    command: tuple[str, ...]
    stop_seconds: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """What the supervisor says of a program."""

    name: str
    group: str
    state: str  # STARTING, RUNNING, BACKOFF, STOPPING, STOPPED, EXITED, FATAL
    pid: int  # 0 when there is none
    detail: str

    @property
    def tried(self) -> bool:
        """Return whether the program runs, or its supervisor still tries."""
        return self.state not in STOPPING


def configuration(programs: Sequence[Program], *, home: Path, socket: Path, directory: Path, root: bool) -> str:
    """Return the text of `supervisord.conf`; every program waits for `Supervisor.start_group`."""
    head = Template((HERE / "supervisord.conf").read_text(encoding="utf-8")).substitute(
        socket=_plain(str(socket)),
        directory=_plain(str(directory)),
        logs=_plain(str(home / "logs")),
        run=_plain(str(home / "run")),
        user="user=root\n" if root else "",
    )
    groups: dict[str, list[str]] = {}
    for program in programs:
        groups.setdefault(program.group, []).append(program.name)
    grouped = [f"[group:{group}]\nprograms={','.join(names)}\n" for group, names in groups.items()]
    return "\n".join([head, *(_section(p, home / "logs" / f"{p.name}.log") for p in programs), *grouped])


def _section(program: Program, log: Path) -> str:
    lines = {
        "command": _plain(shlex.join(program.command)),
        "autostart": "false",
        "autorestart": "true",
        "startsecs": "3",
        "startretries": "20",
        "stopasgroup": "true",
        "killasgroup": "true",
        "stopwaitsecs": str(program.stop_seconds),
        "redirect_stderr": "true",
        "stdout_logfile": _plain(str(log)),
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "2",
    }
    return f"[program:{program.name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _plain(value: str) -> str:
    return value.replace("%", "%%")  # supervisor expands %(..)s


class Supervisor:
    """The supervisord of one home, running or not.

    Args:
        home: The installation's absolute folder.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._record = home / "run" / "supervisor.json"

    def identity(self) -> Identity | None:
        """Return the living supervisord; None when there is none."""
        found = parse_identity(files.read_json(self._record))
        return found if found is not None and is_alive(found) else None

    def launch(self, programs: Sequence[Program], environment: Mapping[str, str]) -> None:
        """Start supervisord, detached, with nothing below it yet; its children get `environment`.

        Raises:
            SupervisorError: It ended at once, or does not answer.
        """
        files.private_folder(self.home / "logs")
        socket = _socket_folder() / "s"
        conf = self.home / "run" / "supervisord.conf"
        root = os.geteuid() == 0
        text = configuration(programs, home=self.home, socket=socket, directory=Path.cwd(), root=root)
        files.write(conf, text)
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
        """Return the state of every program; empty when no supervisor runs.

        Raises:
            SupervisorError: It runs and does not answer.
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
        """Start the programs of a group that do not run; does not wait for them."""
        for state in self.states():
            if state.group == group and not state.tried:
                with contextlib.suppress(xmlrpc.client.Fault):  # it came up between the two calls
                    self._call("startProcess", f"{group}:{state.name}", False)  # noqa: FBT003 -- XML-RPC has no names

    def stop_group(self, group: str) -> None:
        """Stop the programs of a group and wait until they are gone."""
        with contextlib.suppress(xmlrpc.client.Fault):  # no such group: nothing to stop
            self._call("stopProcessGroup", group)

    def shut_down(self) -> None:
        """Stop every program, then the supervisor; return when it is gone (by force if need be)."""
        identity = self.identity()
        if identity is not None:
            with contextlib.suppress(SupervisorError, xmlrpc.client.Fault):
                self._call("shutdown")
            family.stop(family.wait_gone([identity], within=GONE_SECONDS), within=5)

    def leftovers(self) -> list[Identity]:
        """Return living processes that were started below the last supervisor of this home, it included."""
        leader = parse_identity(files.read_json(self._record))
        return [] if leader is None else family.session_of(leader)

    def forget(self) -> None:
        """Remove the record of a supervisor that is gone, with its socket."""
        record = files.read_json(self._record)
        if record is not None:
            shutil.rmtree(Path(str(record.get("socket"))).parent, ignore_errors=True)
            self._record.unlink(missing_ok=True)

    def _wait_answer(self, process: subprocess.Popen[bytes], path: Path) -> None:
        def look() -> bool | None:
            if process.poll() is not None:
                return False
            with contextlib.suppress(SupervisorError):
                self._call("getState")
                return True
            return None

        if poll_until(look, within=ANSWER_SECONDS, every=0.05):
            return
        output_end = path.read_text(encoding="utf-8", errors="replace")[-2000:]
        msg = f"Supervisor of `{self.home}`: expected an answer within {ANSWER_SECONDS:.0f} s, got none.\n{output_end}"
        raise SupervisorError(msg)

    def _call(self, method: str, *arguments: object) -> object:
        from supervisor.xmlrpc import SupervisorTransport  # noqa: PLC0415 -- `cutover status` may have nobody to ask

        record = files.read_json(self._record) or {}
        transport = SupervisorTransport(None, None, f"unix://{record.get('socket')}")
        proxy = xmlrpc.client.ServerProxy("http://localhost", transport=transport)
        try:
            return getattr(proxy.supervisor, method)(*arguments)
        except (OSError, HTTPException, xmlrpc.client.ProtocolError) as error:
            msg = f"Supervisor of `{self.home}`: expected an answer to {method}, got {error}."
            raise SupervisorError(msg + "\nHint: `cutover down`, then `cutover up`.") from error
        finally:
            transport.close()


def _socket_folder() -> Path:
    """Return a new folder of our own with a path short enough for a unix socket."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 -- mkdtemp is 0700
        if parent and len(parent) < SOCKET_LIMIT - 20 and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="cutover-", dir=parent))
    msg = (
        "Supervisor: expected a writable folder with a short path for its socket, got none.\nHint: set XDG_RUNTIME_DIR."
    )
    raise SupervisorError(msg)

"""Processes of a session or a family, listed and stopped by identity, their memory, and a command in a child process.

A pid may be reused, so an identity has the start time, too. Memory is the proportional set size of a process and all
its children, so that shared pages count once.

A command of Cutover that runs in a child returns its JSON output, and its events become log lines. The caller needs
little memory, and the JVM ends with the child. The child is in the caller's process group, so that it ends with the
group (which Airflow kills); it also ends if only the caller is killed.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import psutil

from cutover.clock import poll_until
from cutover.process import Identity, identify, is_alive, read_boot_id

POLL_SECONDS = 0.1


def session_of(leader: Identity) -> list[Identity]:
    """List the running members of the session that a process leads, or has led until it died.

    A process that sets its title overwrites its environment, and one whose parent dies loses its ancestry; but both
    remain in the session. Only `setsid` leaves it, as a detached stream driver does.
    """
    if leader.boot != read_boot_id():
        return []
    if identify(leader.pid) is not None and not is_alive(leader):  # the pid was reused, maybe by another session leader
        return []
    members = (identify(p.pid) for p in psutil.process_iter() if _find_session(p.pid) == leader.pid)
    return [m for m in members if m is not None and m.started >= leader.started]


def family(identity: Identity) -> list[Identity]:
    """List a running process, its process group (if it leads one) and its descendants."""
    if not is_alive(identity):
        return []
    pids = {identity.pid}
    with contextlib.suppress(psutil.Error):
        pids |= {child.pid for child in psutil.Process(identity.pid).children(recursive=True)}
    if _find_group(identity.pid) == identity.pid:
        pids |= {p.pid for p in psutil.process_iter() if _find_group(p.pid) == identity.pid}
    return [pid for pid in map(identify, pids) if pid is not None]


def stop(
    identities: Iterable[Identity], *, timeout: float, report_progress: Callable[[int], None] | None = None
) -> list[Identity]:
    """Send SIGTERM to processes, then SIGKILL to the remaining ones; return those that are still alive.

    Args:
        identities: Processes to stop; those that have ended are ignored.
        timeout: Seconds between SIGTERM and SIGKILL.
        report_progress: Called with the number of running processes during the wait.
    """
    targets = list(identities)
    for signal_number, seconds in ((signal.SIGTERM, timeout), (signal.SIGKILL, 10.0)):
        targets = [t for t in targets if is_alive(t)]
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target.pid, signal_number)
        targets = wait_for_end(targets, timeout=seconds, report_progress=report_progress)
    return targets


def wait_for_end(
    identities: Iterable[Identity], *, timeout: float, report_progress: Callable[[int], None] | None = None
) -> list[Identity]:
    """Wait until all processes have ended; return those that are still running after `timeout` seconds."""
    running = list(identities)

    def have_ended() -> bool | None:
        running[:] = [i for i in running if is_alive(i)]
        if running and report_progress is not None:
            report_progress(len(running))
        return None if running else True

    poll_until(have_ended, timeout=timeout, interval=POLL_SECONDS)
    return running


def _find_session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _find_group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def proportional_set_size(pid: int) -> int:
    """Return the bytes of one process, with shared pages divided by their users; 0 if it has ended."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    with suppress(psutil.Error):  # on other systems than Linux: only unshared pages
        return int(psutil.Process(pid).memory_full_info().uss)
    return 0


def list_family(roots: Iterable[int]) -> set[int]:
    """Return the pids of processes and of all their descendants."""
    pids: set[int] = set()
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            pids |= {root, *(child.pid for child in process.children(recursive=True))}
    return pids


class PeakMemory:
    """Sampler of the memory of process families, in a thread, with the highest sum as `peak`.

    Args:
        roots: Called for each sample; returns the pids of the families' root processes.
        seconds: Interval between two samples.
    """

    def __init__(self, roots: Callable[[], Iterable[int]], *, seconds: float = 2.0) -> None:
        self._roots, self._seconds, self._stop = roots, seconds, threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)
        self.peak = 0  # bytes

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def _sample(self) -> None:
        while not self._stop.is_set():
            self.peak = max(self.peak, sum(map(proportional_set_size, list_family(self._roots()))))
            self._stop.wait(self._seconds)


PROGRAM = (sys.executable, "-m", "cutover.cli.app")
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
MESSAGE_LINES = 20
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """Result of a child: exit code, JSON output, and error message."""

    exit_code: int  # negative: number of the signal that ended it
    value: object  # JSON that it printed; None if it printed none
    message: str  # last lines of its stderr other than events: the message of an error


def run_child(
    arguments: Sequence[str], *, on_line: Callable[[str], None], program: Sequence[str] = PROGRAM
) -> ChildEnd:
    """Run a command and wait for its end.

    Args:
        arguments: Arguments of the command line, without the program.
        on_line: Called with each line of stderr; events are formatted as `name key=value ...`.
        program: Program, by default `cutover` with this interpreter.
    """
    command = [*program, *arguments]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 -- one call to the kernel
    )
    assert child.stdout is not None  # noqa: S101 -- PIPE above
    assert child.stderr is not None  # noqa: S101 -- PIPE above
    tail: list[str] = []
    reader = threading.Thread(target=_read_lines, args=(child.stderr, on_line, tail), daemon=True)
    reader.start()
    try:
        printed = child.stdout.read()
        code = child.wait()
    finally:
        _end(child)
    reader.join(GRACE)
    return ChildEnd(exit_code=code, value=_parse(printed), message="\n".join(tail))


def _read_lines(stream: IO[str], on_line: Callable[[str], None], tail: list[str]) -> None:
    for line in stream:
        event = _parse(line)
        if isinstance(event, dict) and "event" in event:
            tail.clear()
            on_line(_format_event(event))
        elif text := line.rstrip():
            tail.append(text)
            del tail[:-MESSAGE_LINES]
            on_line(text)


def _format_event(event: dict[str, object]) -> str:
    fields = (f"{key}={value}" for key, value in event.items() if key not in {"event", "level", "timestamp"})
    return " ".join((str(event["event"]), *fields))


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when its parent dies; call it between fork and exec."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

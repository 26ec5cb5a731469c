"""Processes of a session or a family, listed and stopped by identity, because a pid may be reused, and their memory.

Memory is the proportional set size of a process and all its children, so that shared pages count once.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

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

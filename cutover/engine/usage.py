"""What this process and those that it started have used, as the kernel counts it: processor time and bytes read.

A Spark driver's JVM is a separate process in addition to Python's; both together are what a path costs on this machine.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CPU = slice(11, 15)  # of the fields after the name in `/proc/PID/stat`, see proc(5): own and of children waited for
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_LOOK_SECONDS = 5.0
"""How long the processes found are believed to be all: they change at a start, and looking reads a file a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals of some processes."""

    core_seconds: float  # user and system
    read_bytes: int  # by all reads: files, pipes and sockets


class UsageMeter:
    """Counts from its making on. Not for two threads at once.

    Args:
        proc: Where the kernel shows processes.
        pid: The process that is measured with all that descend from it; None: this one.
    """

    def __init__(self, *, proc: Path = _PROC, pid: int | None = None) -> None:
        self._proc, self._pid = proc, os.getpid() if pid is None else pid
        self._found: list[int] = []
        self._looked = -_LOOK_SECONDS
        self._before = self._sum()
        self._most = Usage(core_seconds=0.0, read_bytes=0)

    def measure(self) -> Usage | None:
        """Return what was used since; never less than it said before. None where the kernel does not show it."""
        now = self._sum()
        if now is None or self._before is None:
            return None
        # A child that ended without its parent's waiting for it takes its figures along.
        self._most = Usage(
            core_seconds=max(self._most.core_seconds, round(now.core_seconds - self._before.core_seconds, 3)),
            read_bytes=max(self._most.read_bytes, now.read_bytes - self._before.read_bytes),
        )
        return self._most

    def _sum(self) -> Usage | None:
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._found, self._looked = [self._pid, *self._find_descendants(self._pid)], time.monotonic()
        try:
            own = self._read(self._pid)
        except (OSError, ValueError, KeyError):
            return None
        other_processes = [found for pid in self._found[1:] if (found := self._read_if_there(pid)) is not None]
        seconds = own.core_seconds + sum(found.core_seconds for found in other_processes)
        return Usage(
            core_seconds=seconds, read_bytes=own.read_bytes + sum(found.read_bytes for found in other_processes)
        )

    def _read_if_there(self, pid: int) -> Usage | None:
        try:
            return self._read(pid)
        except (OSError, ValueError, KeyError):
            return None

    def _read(self, pid: int) -> Usage:
        folder = self._proc / str(pid)
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        ticks = sum(map(int, stat.rpartition(")")[2].split()[_CPU]))  # the name before may hold blanks and brackets
        lines = (line.partition(":") for line in (folder / "io").read_text(encoding="ascii").splitlines())
        return Usage(core_seconds=ticks / _TICKS, read_bytes=int({name: text for name, _, text in lines}["rchar"]))

    def _find_descendants(self, pid: int) -> Iterator[int]:
        try:
            tasks = list((self._proc / str(pid) / "task").iterdir())
        except OSError:
            return
        for task in tasks:
            try:
                children = (task / "children").read_text(encoding="ascii").split()
            except OSError:  # a thread that has ended
                continue
            for child in map(int, children):
                yield child
                yield from self._find_descendants(child)

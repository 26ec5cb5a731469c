"""Resource usage of this process and its descendants, and the cost of a path that is recorded from it.

The kernel reports processor time and bytes read. The JVM of a Spark driver is a separate process; a path's cost on this
machine is that of both. A `PathCost` is recorded with each epoch and each batch run; a figure that is unknown is None.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cutover.json_text import EXACT

_PROC = Path("/proc")
_CPU = slice(
    11, 15
)  # fields after the name in `/proc/PID/stat`, see proc(5): of the process and of children waited for
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_LIST_SECONDS = 5.0
"""How long a list of descendants is reused; listing reads one file per thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Total usage of several processes."""

    core_seconds: float  # user and system
    read_bytes: int  # by all reads: files, pipes and sockets


class UsageMeter:
    """Meter of the usage since its creation; not thread-safe.

    Args:
        proc: Folder in which the kernel exposes processes.
        pid: Process that is measured with its descendants; None: this one.
    """

    def __init__(self, *, proc: Path = _PROC, pid: int | None = None) -> None:
        self._proc, self._pid = proc, os.getpid() if pid is None else pid
        self._pids: list[int] = []
        self._listed_at = -_LIST_SECONDS
        self._initial = self._sum()
        self._maximum = Usage(core_seconds=0.0, read_bytes=0)

    def measure(self) -> Usage | None:
        """Return the usage since creation, never less than before; None if the kernel does not expose it."""
        now = self._sum()
        if now is None or self._initial is None:
            return None
        # The usage of a child is lost if it ends and its parent does not wait for it.
        self._maximum = Usage(
            core_seconds=max(self._maximum.core_seconds, round(now.core_seconds - self._initial.core_seconds, 3)),
            read_bytes=max(self._maximum.read_bytes, now.read_bytes - self._initial.read_bytes),
        )
        return self._maximum

    def _sum(self) -> Usage | None:
        if time.monotonic() - self._listed_at >= _LIST_SECONDS:
            self._pids, self._listed_at = [self._pid, *self._find_descendants(self._pid)], time.monotonic()
        try:
            process_usage = self._read(self._pid)
        except (OSError, ValueError, KeyError):
            return None
        usages = [process_usage, *filter(None, map(self._read_if_running, self._pids[1:]))]
        return Usage(
            core_seconds=sum(usage.core_seconds for usage in usages),
            read_bytes=sum(usage.read_bytes for usage in usages),
        )

    def _read_if_running(self, pid: int) -> Usage | None:
        try:
            return self._read(pid)
        except (OSError, ValueError, KeyError):
            return None

    def _read(self, pid: int) -> Usage:
        folder = self._proc / str(pid)
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        ticks = sum(map(int, stat.rpartition(")")[2].split()[_CPU]))  # the name may contain blanks and brackets
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCost:
    """Totals of one driver or one batch run since its beginning."""

    __pydantic_config__ = EXACT

    core_seconds: float | None = None  # of its process and its JVM; None: executors ran elsewhere, or no kernel says
    read_bytes: int | None = None  # by all reads of these processes: the log, tables, their own programs
    written_bytes: int | None = None  # of the data files that it added to its tables


def measure_cost(meter: UsageMeter, *, is_local: bool, written_bytes: int | None) -> PathCost:
    """Measure the resources used so far.

    Args:
        meter: Created when the driver or the run began.
        is_local: False: executors run on other machines, so the usage of this machine is incomplete.
        written_bytes: Counted by the caller.
    """
    used = meter.measure() if is_local else None
    return PathCost(
        core_seconds=None if used is None else used.core_seconds,
        read_bytes=None if used is None else used.read_bytes,
        written_bytes=written_bytes,
    )


def add_costs(cost: PathCost, other: PathCost) -> PathCost:
    """Return the sum of two costs; a figure that is unknown in either is unknown."""
    seconds = None
    if cost.core_seconds is not None and other.core_seconds is not None:
        seconds = round(cost.core_seconds + other.core_seconds, 3)
    return PathCost(
        core_seconds=seconds,
        read_bytes=_add(cost.read_bytes, other.read_bytes),
        written_bytes=_add(cost.written_bytes, other.written_bytes),
    )


def _add(figure: int | None, other: int | None) -> int | None:
    return None if figure is None or other is None else figure + other

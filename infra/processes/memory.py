"""Memory of processes and all their children, as proportional set size, so that shared pages count once."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil


def proportional_set_size(pid: int) -> int:
    """Return the bytes of one process, with shared pages divided by their users; 0 if it has ended."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    with suppress(psutil.Error):  # on other systems than Linux: only unshared pages
        return int(psutil.Process(pid).memory_full_info().uss)
    return 0


def family(roots: Iterable[int]) -> set[int]:
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
            self.peak = max(self.peak, sum(map(proportional_set_size, family(self._roots()))))
            self._stop.wait(self._seconds)

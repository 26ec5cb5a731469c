"""The identity of a process: a pid alone may be given to another one, not so with the boot and the start in it."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from cutover.errors import CutoverError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START = 0, 19  # of the fields after the name in `/proc/PID/stat`, see proc(5)
_TICKS = 100.0  # a second; the kernel shows times in this unit whatever its own clock is


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process, for as long as it lives.

    Its start is counted from the boot, not from 1970: a clock that is set or slewed moves the boot's own time, and with
    it the start that psutil computes, by a second and more while the process runs on.
    """

    pid: int
    boot: str  # id of the boot; "" where the system has none
    started: float  # seconds after the boot; where the system has no id of it, since 1970


def identify(pid: int) -> Identity | None:
    """Return who has this pid now; None if nobody has, or only a zombie."""
    if not _BOOT.exists():
        return _identify_elsewhere(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    if fields[_STATE] in {"Z", "X", "x"}:
        return None
    return Identity(pid=pid, boot=read_boot_id(), started=int(fields[_START]) / _TICKS)


def identify_current() -> Identity:
    """Pid, boot and start time of this process, by which another one can tell whether it lives."""
    identity = identify(os.getpid())
    if identity is None:
        msg = f"Process {os.getpid()}: expected to find itself among the processes, got none."
        raise CutoverError(msg)
    return identity


def is_alive(identity: Identity) -> bool:
    """Return whether this very process still runs (a zombie does not)."""
    return identify(identity.pid) == identity


def parse_identity(raw: object) -> Identity | None:
    """Return the identity in a JSON object with `pid`, `boot` and `started`; None if it holds none."""
    fields = raw if isinstance(raw, dict) else {}
    pid, of_boot, started = fields.get("pid"), fields.get("boot"), fields.get("started")
    if isinstance(pid, int) and isinstance(of_boot, str) and isinstance(started, int | float):
        return Identity(pid=pid, boot=of_boot, started=float(started))
    return None


@functools.cache
def read_boot_id() -> str:
    """Return the id of this machine's boot; "" where the system has none."""
    return _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""


def _identify_elsewhere(pid: int) -> Identity | None:
    import psutil  # noqa: PLC0415 -- not on Linux

    try:
        process = psutil.Process(pid)
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if zombie else Identity(pid=pid, boot="", started=process.create_time())
    except psutil.Error:
        return None

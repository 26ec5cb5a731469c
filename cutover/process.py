"""Identity of a process: its pid with the boot id and start time, since a pid alone may be reused."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from cutover.errors import CutoverError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START = 0, 19  # of the fields after the name in `/proc/PID/stat`, see proc(5)
_TICKS = 100.0  # per second; USER_HZ, the unit of times in `/proc`


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identity of one process during its lifetime.

    The start time is relative to the boot, not to 1970: setting or slewing the clock moves the boot time, and with it
    the start time that psutil computes, by a second and more during the lifetime of a process.
    """

    pid: int
    boot: str  # boot id; "" if the system has none
    started: float  # seconds since the boot; since 1970 if the system has no boot id


def identify(pid: int) -> Identity | None:
    """Identify the process that currently has this pid; None if there is none, or only a zombie."""
    if not _BOOT.exists():
        return _identify_elsewhere(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain blanks and parentheses
    if fields[_STATE] in {"Z", "X", "x"}:
        return None
    return Identity(pid=pid, boot=read_boot_id(), started=int(fields[_START]) / _TICKS)


def identify_current() -> Identity:
    """Return the identity of this process, by which other processes can check that it is running."""
    identity = identify(os.getpid())
    if identity is None:
        msg = f"Process {os.getpid()}: expected an entry in the process table, got none."
        raise CutoverError(msg)
    return identity


def is_alive(identity: Identity) -> bool:
    """Return whether exactly this process is still running; a zombie is not."""
    return identify(identity.pid) == identity


def parse_identity(raw: object) -> Identity | None:
    """Parse an identity from a JSON object with `pid`, `boot` and `started`; None if it has none."""
    fields = raw if isinstance(raw, dict) else {}
    pid, of_boot, started = fields.get("pid"), fields.get("boot"), fields.get("started")
    if isinstance(pid, int) and isinstance(of_boot, str) and isinstance(started, int | float):
        return Identity(pid=pid, boot=of_boot, started=float(started))
    return None


@functools.cache
def read_boot_id() -> str:
    """Read the boot id of this machine; "" if the system has none."""
    return _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""


def _identify_elsewhere(pid: int) -> Identity | None:
    import psutil  # noqa: PLC0415 -- not on Linux

    try:
        process = psutil.Process(pid)
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if zombie else Identity(pid=pid, boot="", started=process.create_time())
    except psutil.Error:
        return None

"""The processes of a session or a family, and how they are stopped: by identity, never by pid alone."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable

import psutil

from cutover.clock import poll_until
from cutover.process import Identity, boot, identify, is_alive

POLL_SECONDS = 0.1


def session_of(leader: Identity) -> list[Identity]:
    """Return the living members of the session that a process leads, or led until it died.

    A process that gives itself a new title overwrites its environment, and one whose parent dies loses its ancestry;
    the session stays. Only `setsid` leaves it, which is what a detached stream driver does.
    """
    if leader.boot != boot():
        return []
    now = identify(leader.pid)
    if now is not None and not is_alive(leader):  # the pid was given to another process, which may lead a session too
        return []
    members = (identify(p.pid) for p in psutil.process_iter() if _session(p.pid) == leader.pid)
    return [m for m in members if m is not None and m.started >= leader.started]


def family(identity: Identity) -> list[Identity]:
    """Return a living process, its group (if it leads one) and its descendants."""
    if not is_alive(identity):
        return []
    pids = {identity.pid}
    with contextlib.suppress(psutil.Error):
        pids |= {child.pid for child in psutil.Process(identity.pid).children(recursive=True)}
    if _group(identity.pid) == identity.pid:
        pids |= {p.pid for p in psutil.process_iter() if _group(p.pid) == identity.pid}
    return [pid for pid in map(identify, pids) if pid is not None]


def stop(identities: Iterable[Identity], *, within: float, tell: Callable[[int], None] | None = None) -> list[Identity]:
    """Ask processes to end, and end by force those that did not; return those that live even so.

    Args:
        identities: Whom to stop; the dead are passed over.
        within: Seconds between the request and the force.
        tell: Called with the number still alive, while waiting.
    """
    targets = list(identities)
    for sign, seconds in ((signal.SIGTERM, within), (signal.SIGKILL, 10.0)):
        targets = [t for t in targets if is_alive(t)]
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target.pid, sign)
        targets = wait_gone(targets, within=seconds, tell=tell)
    return targets


def wait_gone(
    identities: Iterable[Identity], *, within: float, tell: Callable[[int], None] | None = None
) -> list[Identity]:
    """Return those that still live after `within` seconds; sooner when all are gone."""
    living = list(identities)

    def look() -> bool | None:
        living[:] = [i for i in living if is_alive(i)]
        if living and tell is not None:
            tell(len(living))
        return None if living else True

    poll_until(look, within=within, every=POLL_SECONDS)
    return living


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None

"""One driver for each pipeline of an installation; the table's fence holds across installations."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutover.errors import LakeError


@contextmanager
def only_driver(folder: Path, pipeline: str) -> Iterator[None]:
    """Hold the lock of a pipeline's driver; the system gives it back when the process ends, however it ends.

    Raises:
        LakeError: Another process holds it, or the folder cannot be written.
    """
    with _require_writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "driver.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _make_taken_error(handle, pipeline) from None
        with _require_writable(folder):
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def _require_writable(folder: Path) -> Iterator[None]:
    """Say it where a folder cannot be written: the driver has read and written nothing yet."""
    try:
        yield
    except OSError as error:
        msg = f"Driver's folder `{folder}`: expected a place that can be written, got: {error.strerror or error}."
        raise LakeError(msg + "\nHint: make room and start again.", runbook="DiskHeadroomLow") from error


def _make_taken_error(handle: int, pipeline: str) -> LakeError:
    holder = os.pread(handle, 32, 0).decode() or "unknown"
    msg = (
        f"Stream of {pipeline}: expected no driver in this installation, got one with pid {holder}.\n"
        "Hint: `cutover status` shows it; it has to end before another one starts."
    )
    return LakeError(msg, runbook="StreamFenced")

"""The terminal is for what a command says; what its engines print goes to a log file.

A JVM, librdkafka and DuckDB's binding write to file descriptors 1 and 2 of the process that holds them, at any moment
and after its last line of Python. No filter of text tells their lines from ours, so the descriptors are parted: ours
are copies, and 1 and 2 lead to the file from the start of an engine on. Children inherit 1 and 2.
"""

import codecs
import logging
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from itertools import groupby
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

KEPT = 50
"""Ended processes whose log files are kept."""

LARGEST = 5_000_000
"""Bytes of a log file before the next one begins."""

OLDER = 2
"""Full files of one process that are kept beside the one that grows."""

WIDE = 160
"""Columns of what no terminal shows: a file or a pipe has no edge at which tables must be cut."""

_PUBLIC = (1, 2)
_SUBSTITUTE = "cutover.substitute"
_ALIKE = {
    "\N{MINUS SIGN}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{NARROW NO-BREAK SPACE}": " ",
    "\N{NOT EQUAL TO}": "!=",
    "\N{CHECK MARK}": "v",
    "\N{BALLOT X}": "x",
    "\N{BULLET}": "*",
    "\N{BOX DRAWINGS HEAVY HORIZONTAL}": "-",
    "\N{BOX DRAWINGS HEAVY LEFT}": "-",
    "\N{BOX DRAWINGS HEAVY RIGHT}": "-",
}
"""What we and the libraries that draw for us write beside ASCII."""

_BRAILLE = frozenset(map(chr, range(0x2800, 0x2900)))  # of spinners


@dataclass(slots=True)
class _Parted:
    """What this process has done with its descriptors."""

    command: str | None = None  # None: nobody asked; they are the caller's, as in a test or in Airflow
    home: Path | None = None
    file: Path | None = None


_parted = _Parted()
_lock = threading.Lock()


def own(command: str) -> None:
    """Let `sys.stdout` and `sys.stderr` write to copies of the descriptors; for the entry of a process alone.

    Where no terminal reads them, tables are as wide as they need; who wants them otherwise sets `COLUMNS`.

    Args:
        command: What the log file is called after.
    """
    if _parted.command is None:
        _parted.command = command
        if not sys.stdout.isatty():
            os.environ.setdefault("COLUMNS", str(WIDE))
        sys.stdout, sys.stderr = _copy(sys.stdout), _copy(sys.stderr)


def redirect_output(home: Path) -> None:
    """Lead descriptors 1 and 2, Python's warnings and the libraries' loggers into a new file, if `own` was called.

    A process that runs for months keeps `LARGEST` bytes and `OLDER` files of them, and as much for its JVM.

    Args:
        home: Folder of the installation; the file is `logs/engine/<command>-<time>-<pid>.log` in it. A file that
            cannot be made leaves all as it is: the command fails over the folder in its own words, or does not need it.
    """
    with _lock:
        if _parted.command is None or _parted.file is not None:
            return
        with suppress(OSError):
            file = _new_file(home.resolve(), _parted.command)
            _redirect_to(file)
            _parted.home, _parted.file = home.resolve(), file


def engine_log() -> str | None:
    """Return the line that names the log files, relative to the folder of the installation; None: there are none."""
    if _parted.file is None or _parted.home is None:
        return None
    files = [file for file in (_parted.file, jvm_log()) if file is not None and file.exists()]
    return f"Engine log in {_parted.home}: {', '.join(str(file.relative_to(_parted.home)) for file in files)}"


def jvm_log() -> Path | None:
    """Return the file for the log of this process's JVM, which rolls it itself; None: descriptor 2 is its place."""
    return None if _parted.file is None else _parted.file.with_suffix(".spark.log")


def discard_output() -> None:
    """Let what is still to be written go nowhere: nobody reads it any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _copy(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a buffer of a caller's, or none at all
        return stream
    stream.flush()
    codecs.register_error(_SUBSTITUTE, substitute)
    return os.fdopen(
        os.dup(number),
        "w",
        encoding=stream.encoding,
        errors=_SUBSTITUTE,
        buffering=1 if stream is sys.stderr or stream.isatty() else -1,
    )


def substitute(error: UnicodeError) -> tuple[str, int]:
    r"""Return what stands for characters that a stream's encoding does not have: like ones for ours, else escapes.

    A key with such an escape (`\u65e5`) is the same key when it is typed.

    Raises:
        UnicodeError: Something is to be read, not written.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_substitute_character, error.object[error.start : error.end])), error.end


def _substitute_character(character: str) -> str:
    if character in _ALIKE:
        return _ALIKE[character]
    return "*" if character in _BRAILLE else character.encode("ascii", "backslashreplace").decode("ascii")


def _new_file(home: Path, command: str) -> Path:
    folder = home / "logs" / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    return folder / f"{command}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


def _sweep(folder: Path) -> None:
    """Remove the files of the oldest processes beyond those that are kept; never of a process that is there."""
    from cutover import process  # noqa: PLC0415 -- for the commands that start an engine alone

    named = groupby(sorted(folder.glob("*.log*")), key=_process)
    processes = [(max(file.stat().st_mtime for file in files), name, files) for name, (*files,) in named]
    for _, name, files in sorted(processes, reverse=True)[KEPT:]:
        writer = name.rpartition("-")[2]
        if not (writer.isdigit() and process.identify(int(writer)) is not None):
            for file in files:
                file.unlink(missing_ok=True)


def _process(file: Path) -> str:
    """Return what all files of one process are called: `<command>-<time>-<pid>`."""
    return file.name.partition(".")[0]


class _RedirectedLog(RotatingFileHandler):
    """A log file that descriptors 1 and 2 lead to, also where the next one begins."""

    def _open(self) -> TextIOWrapper:
        lines = super()._open()
        os.fchmod(lines.fileno(), 0o600)
        for public in _PUBLIC:
            os.dup2(lines.fileno(), public, inheritable=True)
        return lines


def _redirect_to(file: Path) -> None:
    led = _RedirectedLog(file, maxBytes=LARGEST, backupCount=OLDER, encoding="utf-8", errors="backslashreplace")
    logging.captureWarnings(capture=True)
    logging.getLogger().addHandler(led)
    lost = logging.getLogger("cutover.lost")

    def thread_ended(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None:
            lost.error("a thread ended", exc_info=ended.exc_value)

    def unraisable(raised: "sys.UnraisableHookArgs") -> None:
        if raised.exc_value is not None:
            lost.error("nobody could be told", exc_info=raised.exc_value)

    threading.excepthook, sys.unraisablehook = thread_ended, unraisable

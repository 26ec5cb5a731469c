"""Separation of a command's output from that of its engines, which goes to a log file.

A JVM, librdkafka and DuckDB's binding write to file descriptors 1 and 2 of the process that holds them, at any time,
even after Python has finished. Their lines cannot be filtered by text, so the descriptors are separated: Python
writes to copies, and 1 and 2 are redirected to the file before an engine starts. Children inherit 1 and 2.
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

RETAINED_PROCESSES = 50
"""Ended processes whose log files are retained."""

MAX_LOG_BYTES = 5_000_000
"""Size at which a log file is rotated."""

ROTATED_FILES = 2
"""Rotated log files per process that are retained, in addition to the current one."""

WIDE = 160
"""Columns of output to a file or a pipe, which has no edge at which tables must be wrapped."""

_PUBLIC = (1, 2)
_SUBSTITUTE = "cutover.substitute"
_SUBSTITUTES = {
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
"""Substitutes for the characters outside ASCII that Cutover and its drawing libraries write."""

_BRAILLE = frozenset(map(chr, range(0x2800, 0x2900)))  # of spinners


@dataclass(slots=True)
class _Redirection:
    """State of this process's descriptors."""

    command: str | None = None  # None: not taken over; they belong to the caller, such as a test or Airflow
    home: Path | None = None
    file: Path | None = None


_redirection = _Redirection()
_lock = threading.Lock()


def take_over_output(command: str) -> None:
    """Make `sys.stdout` and `sys.stderr` write to copies of the descriptors; only for the entry point of a process.

    Without a terminal tables get `WIDE` columns unless `COLUMNS` is set.

    Args:
        command: Command after which the log file is named.
    """
    if _redirection.command is None:
        _redirection.command = command
        if not sys.stdout.isatty():
            os.environ.setdefault("COLUMNS", str(WIDE))
        sys.stdout, sys.stderr = _copy(sys.stdout), _copy(sys.stderr)


def redirect_output(home: Path) -> None:
    """Redirect descriptors 1 and 2, Python's warnings and libraries' loggers to a new file, after `take_over_output`.

    The file is rotated at `MAX_LOG_BYTES`, and `ROTATED_FILES` older ones are retained; the JVM's log likewise.

    Args:
        home: Folder of the installation; the file is `logs/engine/<command>-<time>-<pid>.log` in it. If it
            cannot be created, nothing is redirected: the command reports the problem itself, or does not need it.
    """
    with _lock:
        if _redirection.command is None or _redirection.file is not None:
            return
        with suppress(OSError):
            file = _new_file(home.resolve(), _redirection.command)
            _redirect_to(file)
            _redirection.home, _redirection.file = home.resolve(), file


def engine_log() -> str | None:
    """Return a line with the log files, relative to the folder of the installation; None without any."""
    if _redirection.file is None or _redirection.home is None:
        return None
    files = [file for file in (_redirection.file, jvm_log()) if file is not None and file.exists()]
    return f"Engine log in {_redirection.home}: {', '.join(str(file.relative_to(_redirection.home)) for file in files)}"


def jvm_log() -> Path | None:
    """Return the log file of this process's JVM, which rotates it; None if it logs to descriptor 2."""
    return None if _redirection.file is None else _redirection.file.with_suffix(".spark.log")


def discard_output() -> None:
    """Discard the remaining output after its reader has closed it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


def _copy(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a buffer of the caller, or no stream
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
    r"""Replace characters that a stream's encoding lacks: known ones by similar ones, others by escapes.

    A key with such an escape (`\u65e5`) is accepted as input for the same key.

    Raises:
        UnicodeError: The error is one of decoding.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_substitute_character, error.object[error.start : error.end])), error.end


def _substitute_character(character: str) -> str:
    if character in _SUBSTITUTES:
        return _SUBSTITUTES[character]
    return "*" if character in _BRAILLE else character.encode("ascii", "backslashreplace").decode("ascii")


def _new_file(home: Path, command: str) -> Path:
    folder = home / "logs" / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    _remove_old_logs(folder)
    return folder / f"{command}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


def _remove_old_logs(folder: Path) -> None:
    """Remove log files of the oldest processes beyond the retained ones, except those of running processes."""
    from cutover import process  # noqa: PLC0415 -- for the commands that start an engine alone

    files_by_process = groupby(sorted(folder.glob("*.log*")), key=_get_process_name)
    processes = [(max(file.stat().st_mtime for file in files), name, files) for name, (*files,) in files_by_process]
    for _, name, files in sorted(processes, reverse=True)[RETAINED_PROCESSES:]:
        writer = name.rpartition("-")[2]
        if not (writer.isdigit() and process.identify(int(writer)) is not None):
            for file in files:
                file.unlink(missing_ok=True)


def _get_process_name(file: Path) -> str:
    """Return the common part of the file names of a process: `<command>-<time>-<pid>`."""
    return file.name.partition(".")[0]


class _RedirectedLog(RotatingFileHandler):
    """Log file to which descriptors 1 and 2 are redirected, also after a rotation."""

    def _open(self) -> TextIOWrapper:
        lines = super()._open()
        os.fchmod(lines.fileno(), 0o600)
        for public in _PUBLIC:
            os.dup2(lines.fileno(), public, inheritable=True)
        return lines


def _redirect_to(file: Path) -> None:
    handler = _RedirectedLog(
        file, maxBytes=MAX_LOG_BYTES, backupCount=ROTATED_FILES, encoding="utf-8", errors="backslashreplace"
    )
    logging.captureWarnings(capture=True)
    logging.getLogger().addHandler(handler)
    unhandled = logging.getLogger("cutover.unhandled")

    def thread_ended(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            unhandled.error("a thread ended", exc_info=arguments.exc_value)

    def unraisable(arguments: "sys.UnraisableHookArgs") -> None:
        if arguments.exc_value is not None:
            unhandled.error("an exception could not be raised", exc_info=arguments.exc_value)

    threading.excepthook, sys.unraisablehook = thread_ended, unraisable

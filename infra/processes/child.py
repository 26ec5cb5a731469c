"""Cutover command in a child process: its events become log lines, its JSON output is returned.

The caller needs little memory, and the JVM ends with the child. The child is in the caller's process group, so that it
ends with the group (which Airflow kills); it also ends if only the caller is killed.
"""

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

PROGRAM = (sys.executable, "-m", "cutover.cli.app")
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
MESSAGE_LINES = 20
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """Result of a child: exit code, JSON output, and error message."""

    exit_code: int  # negative: number of the signal that ended it
    value: object  # JSON that it printed; None if it printed none
    message: str  # last lines of its stderr other than events: the message of an error


def run_child(
    arguments: Sequence[str], *, on_line: Callable[[str], None], program: Sequence[str] = PROGRAM
) -> ChildEnd:
    """Run a command and wait for its end.

    Args:
        arguments: Arguments of the command line, without the program.
        on_line: Called with each line of stderr; events are formatted as `name key=value ...`.
        program: Program, by default `cutover` with this interpreter.
    """
    command = [*program, *arguments]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 -- one call to the kernel
    )
    assert child.stdout is not None  # noqa: S101 -- PIPE above
    assert child.stderr is not None  # noqa: S101 -- PIPE above
    tail: list[str] = []
    reader = threading.Thread(target=_read_lines, args=(child.stderr, on_line, tail), daemon=True)
    reader.start()
    try:
        printed = child.stdout.read()
        code = child.wait()
    finally:
        _end(child)
    reader.join(GRACE)
    return ChildEnd(exit_code=code, value=_parse(printed), message="\n".join(tail))


def _read_lines(stream: IO[str], on_line: Callable[[str], None], tail: list[str]) -> None:
    for line in stream:
        event = _parse(line)
        if isinstance(event, dict) and "event" in event:
            tail.clear()
            on_line(_format_event(event))
        elif text := line.rstrip():
            tail.append(text)
            del tail[:-MESSAGE_LINES]
            on_line(text)


def _format_event(event: dict[str, object]) -> str:
    fields = (f"{key}={value}" for key, value in event.items() if key not in {"event", "level", "timestamp"})
    return " ".join((str(event["event"]), *fields))


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when its parent dies; call it between fork and exec."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

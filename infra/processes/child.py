"""A command of Cutover in a child process: its events as log lines while it runs, its JSON when it ends.

The caller stays small, and the end of the child is the end of its JVM. The child stays in the caller's process group,
so that whoever ends the group (Airflow does) ends it too; a caller that is killed alone takes it along as well.
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
GRACE = 10.0  # seconds between the request to end and the end by force
MESSAGE_LINES = 20
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """How a child ended."""

    exit_code: int  # negative: the signal that ended it
    value: object  # the JSON it printed; None if it printed none
    message: str  # the last lines of its stderr that were no events: the sentence of an error


def run_command(
    arguments: Sequence[str], *, on_line: Callable[[str], None], program: Sequence[str] = PROGRAM
) -> ChildEnd:
    """Run a command and wait for its end.

    Args:
        arguments: Words of the command line, without the program.
        on_line: Called with each line of stderr; an event comes as `name key=value ...`.
        program: `cutover` by this interpreter.
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
    reader = threading.Thread(target=_follow, args=(child.stderr, on_line, tail), daemon=True)
    reader.start()
    try:
        printed = child.stdout.read()
        code = child.wait()
    finally:
        _end(child)
    reader.join(GRACE)
    return ChildEnd(exit_code=code, value=_parse(printed), message="\n".join(tail))


def _follow(stream: IO[str], on_line: Callable[[str], None], tail: list[str]) -> None:
    for line in stream:
        event = _parse(line)
        if isinstance(event, dict) and "event" in event:
            tail.clear()
            on_line(_event_line(event))
        elif text := line.rstrip():
            tail.append(text)
            del tail[:-MESSAGE_LINES]
            on_line(text)


def _event_line(event: dict[str, object]) -> str:
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
    """Ask the kernel to end this process when its parent dies: called between fork and exec."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

"""Execution of one drill: inject the fault, wait for the alert, follow the runbook literally, and check the tables.

The alerts are those of the latest sample of a `cutover watch` process that runs during the drill. The commands of a
page are checked first, of their options, against the command line without running them. In the expected output a number
matches any number, and `...` any text.
"""

import json
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, Self, TypeVar

import typer

from cutover.cli.app import GROUP, build_app
from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.drills.stack import PIPELINE, Drill, Stack
from cutover.output.console import ReportProgress
from cutover.runbooks import Command, Page, read_page
from cutover.settings import AlertSettings

_INLINE = re.compile(r"`(cutover [^`\n]+)`")

_TOKEN = re.compile(r"(\.\.\.)|(\d(?:[\d,:]|\.(?!\.\.))*)|(\s+)")
_ANY_NUMBER = r"\d[\d,.:]*"


def list_lines(page: Page) -> Iterator[tuple[str, str]]:
    """Yield location and text of every `cutover ...` on a page, in blocks and in sentences."""
    for block in page.blocks:
        for command in block.commands:
            if command.line.startswith("cutover "):
                yield block.place, command.line
    for title, text in page.sections.items():
        for line in _INLINE.findall(text):
            yield f"docs/runbooks/{page.name}.md, {title}", line


def find_unknown_commands(page: Page) -> list[str]:
    """List the commands of a page that do not exist, a sentence each."""
    unknown_commands = []
    for place, line in list_lines(page):
        problem = check_line(line)
        if problem is not None:
            unknown_commands.append(f"{place}: expected a command that exists, got `{line[:120]}`: {problem}.")
    return unknown_commands


def check_line(line: str) -> str | None:
    """Return why a command line cannot be run as it is typed; None if its command and all its options exist.

    Args:
        line: `cutover ...`. Placeholders (`...`, `<start>`) and values are ignored.
    """
    try:
        _, name, *words = shlex.split(line)
    except ValueError as error:
        return str(error)
    command = _commands().get(name)
    if command is None:
        return f"no command `{name}`"
    if hasattr(command, "commands"):  # `gate P show`, `dimension load`
        subcommand = next((word for word in words if word in command.commands), None)
        if subcommand is None:
            return f"`{name}` needs one of {', '.join(sorted(command.commands))}"
        command = command.commands[subcommand]
    known_options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown_options = sorted(
        {word.partition("=")[0] for word in words if word.startswith("--")} - known_options - {"--help"}
    )
    return f"no option {', '.join(unknown_options)}" if unknown_options else None


@cache
def _commands() -> dict[str, Any]:
    """Return Typer's commands by name."""
    rooms = {entry.module: entry.name for entry in entry_points(group=GROUP)}
    apps = (typer.main.get_command(build_app(name)) for name in rooms.values())
    return {name: command for app in apps for name, command in vars(app)["commands"].items()}


def find_missing_line(expected: tuple[str, ...], printed: str) -> str | None:
    """Find the first expected line that was not printed after the previous ones; None if all were.

    Args:
        expected: Lines on a page. A number in them matches any number (also of a date or a time), `...` any text,
            blanks any blanks. A line may match a part of a printed line; other printed lines may be in between.
        printed: Output of the command.
    """
    printed_lines = iter(printed.splitlines())
    for line in expected:
        pattern = _compile(line)
        if not any(pattern.search(item) for item in printed_lines):
            return line
    return None


def _compile(line: str) -> re.Pattern[str]:
    pattern, position = "", 0
    text = line.strip()
    for token in _TOKEN.finditer(text):
        pattern += re.escape(text[position : token.start()])
        pattern += ".*" if token[1] else _ANY_NUMBER if token[2] else r"\s+"
        position = token.end()
    return re.compile(pattern + re.escape(text[position:]))


Result = TypeVar("Result")

INTERVAL = 0.5
MAX_ERROR_LINES = 6


class AlertWatch:
    """Context with one process of `cutover watch --json`, which is restarted if it ends."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._process: subprocess.Popen[str] | None = None
        self._alerts: Mapping[str, str] | None = None  # name to text, of the latest sample; None before the first
        self._samples = 0
        self._error_lines: list[str] = []

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def restart(self) -> None:
        """Start another process, because a process reads a changed definition only at its start."""
        self._stop()
        self._start()

    def wait_firing(self, name: str, *, timeout: float, sustain: Callable[[], object]) -> str:
        """Wait until an alert fires and return its text.

        Args:
            name: Name of the alert.
            timeout: Seconds.
            sustain: Called before each poll, to sustain the fault.

        Raises:
            CutoverError: It did not fire in time; the message names the alerts that did.
        """

        def find_text() -> str | None:
            sustain()
            return self._read().get(name)

        return self._wait(find_text, timeout, f"{name} to fire within {timeout:g} s")

    def wait_clear(self, name: str, *, timeout: float, sustain: Callable[[], object]) -> None:
        """Wait until a sample after this call does not show an alert.

        Args:
            name: Name of the alert.
            timeout: Seconds.
            sustain: Called before each poll, to keep the pipeline healthy.

        Raises:
            CutoverError: It still fires after the timeout.
        """
        ignored_samples = self._samples + 1  # a sample in progress may have been started before the repair

        def is_clear() -> bool | None:
            sustain()
            alerts = self._read()
            return True if self._samples > ignored_samples and name not in alerts else None

        self._wait(is_clear, timeout, f"{name} to clear within {timeout:g} s")

    def _wait(self, poll: Callable[[], Result | None], timeout: float, expected: str) -> Result:
        result = poll_until(poll, timeout=timeout, interval=INTERVAL / 2)
        if result is None:
            alerts = ", ".join(f"{name} ({text})" for name, text in self._read().items()) or "none"
            error_lines = "".join(f"\n  {line}" for line in self._error_lines)
            msg = f"Drill: expected {expected}, got these alerts: {alerts}.{error_lines}"
            raise CutoverError(msg)
        return result

    def _read(self) -> Mapping[str, str]:
        """Return the alerts of the latest sample; restart the process if it has ended."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._alerts or {}

    def _start(self) -> None:
        self._alerts = None
        self._process = process = self._stack.start(f"cutover watch {PIPELINE} --json --interval {INTERVAL}")
        for read in (self._read_samples, self._read_errors):
            threading.Thread(target=read, args=(process,), daemon=True).start()

    def _read_samples(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 -- the stack pipes it
        for line in process.stdout:
            status = json.loads(line)
            self._alerts = {alert["name"]: alert["text"] for alert in status["alerts"]}
            self._samples += 1

    def _read_errors(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None  # noqa: S101 -- the stack pipes it
        for line in process.stderr:
            self._error_lines = [*self._error_lines, line.rstrip()][-MAX_ERROR_LINES:]

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)


CHECKS = ("N1", "N2", "N3", "N4", "N5", "N6")
OUTPUT_LINES = 8
HELD, UNKNOWN = {"held", "waived"}, "not_provable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Command of a runbook, with the exit code and duration of its execution."""

    section: str
    line: str
    exit_code: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutcome:
    """Result of a drill.

    Attributes:
        name: Name of the drill.
        at: Time of its end, ISO 8601, UTC.
        said: Text of the alert as it fired.
        detect_seconds: Time from the injection to the sample of `cutover watch` that showed the alert.
        repair_seconds: Time from then to the sample that no longer showed it, including the runbook's commands.
        steps: Commands of the runbook that were run.
        checks: State of N1 to N6 by `cutover verify P --all`.
        scale: Limits that differed from those of an installation.
    """

    name: str
    title: str
    at: str
    said: str
    detect_seconds: float
    repair_seconds: float
    steps: tuple[Step, ...]
    checks: Mapping[str, str]
    scale: Mapping[str, object]


def perform(drill: Drill, stack: Stack, *, report_progress: ReportProgress) -> DrillOutcome:
    """Perform a drill on a running stack; the pipeline is healthy before and after it.

    Raises:
        CutoverError: The runbook names an unknown command; the alert fires before the fault, does not fire, or does
            not clear; a command of the runbook has another exit code or output; one of N1 to N6 does not hold.
    """
    page = _read_page(drill)
    report_progress(f"{drill.name}: {drill.title}")
    report_progress(f"  scale: {_describe_scale(drill)}")
    stack.limits = drill.limits
    _prepare(drill, stack)
    with AlertWatch(stack) as alert_watch:
        alert_watch.wait_clear(drill.name, timeout=drill.timeout, sustain=lambda: drill.sustain_clear(stack))
        injected_at = time.monotonic()
        drill.inject(stack)
        alert_text = alert_watch.wait_firing(
            drill.name, timeout=drill.timeout, sustain=lambda: drill.sustain_fault(stack)
        )
        fired_at = time.monotonic()
        report_progress(f"  fires after {fired_at - injected_at:.1f} s: {alert_text}")
        steps = _repair(drill, stack, page, alert_watch, report_progress)
        alert_watch.wait_clear(drill.name, timeout=drill.timeout, sustain=lambda: drill.sustain_clear(stack))
        cleared_at = time.monotonic()
        report_progress(f"  clear after another {cleared_at - fired_at:.1f} s")
    checks = _check(stack)
    report_progress(f"  {', '.join(f'{name} {state}' for name, state in checks.items())}")
    return DrillOutcome(
        name=drill.name,
        title=drill.title,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        said=alert_text.replace(str(stack.home), ".cutover"),
        detect_seconds=round(fired_at - injected_at, 1),
        repair_seconds=round(cleared_at - fired_at, 1),
        steps=steps,
        checks=checks,
        scale=drill.limits,
    )


def _prepare(drill: Drill, stack: Stack) -> None:
    """Write the drill's definition, and start or stop the driver, so that it runs with this definition and limits."""
    if drill.definition or not drill.needs_driver:
        stack.stop_driver()
    if drill.definition:
        stack.define(**drill.definition)
    drill.prepare(stack)
    if drill.needs_driver:
        stack.start_driver()
        stack.await_read()


def _read_page(drill: Drill) -> Page:
    page = read_page(drill.name)
    unknown_commands = find_unknown_commands(page)
    if unknown_commands:
        raise CutoverError("\n".join(unknown_commands))
    return page


def _describe_scale(drill: Drill) -> str:
    defaults = AlertSettings()
    return ", ".join(f"{name} {value} (default {getattr(defaults, name)})" for name, value in drill.limits.items())


def _repair(
    drill: Drill, stack: Stack, page: Page, alert_watch: AlertWatch, report_progress: ReportProgress
) -> tuple[Step, ...]:
    """Run Diagnose, Mitigate and Fix of the runbook, then the external repair, then Verify."""
    steps: list[Step] = []
    for section in ("Diagnose", "Mitigate", "Fix"):
        steps += follow(stack, page, section, case=drill.case, report_progress=report_progress)
    drill.external_repair(stack)
    if drill.definition or drill.is_isolated:
        alert_watch.restart()  # the definition may have changed, and a process reads it only once
    steps += follow(stack, page, "Verify", case=drill.case, report_progress=report_progress)
    return tuple(steps)


def follow(
    stack: Stack, page: Page, section: str, *, case: str | None, report_progress: ReportProgress
) -> Iterator[Step]:
    """Run the blocks of a section and yield each command after its end.

    Commands of the section Diagnose may end with any exit code, because something is broken; all others have to end
    with 0.

    Raises:
        CutoverError: A command has another exit code or output than the page shows; the message has place and output.
    """
    for block in page.select_blocks(section, case):
        for command in block.commands:
            if not command.line.startswith("cutover "):
                msg = f"{block.place}: expected a command of Cutover, got `{command.line}`; mark others as examples."
                raise CutoverError(msg)
            yield _run_command(stack, command, section, place=block.place, report_progress=report_progress)


def _run_command(stack: Stack, command: Command, section: str, *, place: str, report_progress: ReportProgress) -> Step:
    completed = stack.run(command.line)
    report_progress(f"  $ {command.line}  (exit {completed.exit_code}, {completed.seconds:.1f} s)")
    output = f"{completed.printed}\n{completed.errors}"
    output_lines = "".join(f"\n  {line}" for line in output.strip().splitlines()[-OUTPUT_LINES:])
    if section != "Diagnose" and completed.exit_code != 0:
        msg = f"{place}: `{command.line}`: expected exit code 0, got {completed.exit_code}:{output_lines}"
        raise CutoverError(msg)
    missing_line = find_missing_line(command.expected, output)
    if missing_line is not None:
        msg = f"{place}: `{command.line}`: expected the line `{missing_line}`, got:{output_lines}"
        raise CutoverError(msg)
    return Step(section=section, line=command.line, exit_code=completed.exit_code, seconds=round(completed.seconds, 1))


def _check(stack: Stack) -> dict[str, str]:
    """Evaluate N1 to N6, after another batch run if the latest one does not suffice to prove them.

    Raises:
        CutoverError: One does not hold or cannot be proven.
    """
    checks, output = _verify(stack)
    if UNKNOWN in checks.values():
        stack.require(f"cutover batch {PIPELINE}")
        checks, output = _verify(stack)
    if set(checks.values()) - HELD:
        msg = f"Drill: expected N1 to N6 to hold after the repair, got {checks}:\n{output[:2000]}"
        raise CutoverError(msg)
    return checks


def _verify(stack: Stack) -> tuple[dict[str, str], str]:
    """Run `cutover verify`; return the state of each check, and the output."""
    completed = stack.require(f"cutover verify {PIPELINE} --all --json", 0, 1, 2)
    states = {check["check"]: str(check["state"]) for check in json.loads(completed.printed)["checks"]}
    return {name: states.get(name, UNKNOWN) for name in CHECKS}, completed.printed

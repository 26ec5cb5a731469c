"""One drill from beginning to end: caused, detected, mended by its page, checked, timed."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cutover.errors import CutoverError
from cutover.infra.drills.drill import Drill
from cutover.infra.drills.follow import Step, Tell, follow
from cutover.infra.drills.stack import PIPELINE, Stack
from cutover.infra.drills.watching import Watching
from cutover.runbooks.commands import find_unknown_commands
from cutover.runbooks.folder import read_page
from cutover.runbooks.page import Page
from cutover.settings import AlertSettings

CHECKS = ("N1", "N2", "N3", "N4", "N5", "N6")
HELD, UNKNOWN = {"held", "waived"}, "not_provable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutcome:
    """What a drill came to.

    Attributes:
        name: Of the drill.
        at: When it ended, ISO 8601, UTC.
        said: Text of the alert as it fired.
        detect_seconds: From the injection to the look that showed the alert.
        repair_seconds: From then until a look did not show it any more, the page's commands in between.
        steps: Commands of the page that were run.
        checks: N1 to N6 and what `cutover verify P --all` says of each.
        scale: Limits that differed from an installation's.
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


def perform(drill: Drill, stack: Stack, *, tell: Tell) -> DrillOutcome:
    """Run a drill on a stack that is up; the pipeline is healthy before and after it.

    Raises:
        CutoverError: The page's commands are not all there; the alert fires before anything is done, does not fire, or
            does not clear; a command of the page ends or prints otherwise; one of N1 to N6 does not hold.
    """
    page = _read_page(drill)
    tell(f"{drill.name}: {drill.title}")
    tell(f"  scale: {_say_scale(drill)}")
    stack.limits = drill.limits
    _prepare(drill, stack)
    with Watching(stack) as watching:
        watching.wait_clear(drill.name, within=drill.within, meanwhile=lambda: drill.before(stack))
        began = time.monotonic()
        drill.inject(stack)
        said = watching.wait_firing(drill.name, within=drill.within, meanwhile=lambda: drill.go_on(stack))
        fired = time.monotonic()
        tell(f"  fires after {fired - began:.1f} s: {said}")
        steps = _follow_page(drill, stack, page, watching, tell)
        watching.wait_clear(drill.name, within=drill.within, meanwhile=lambda: drill.before(stack))
        cleared = time.monotonic()
        tell(f"  clear after {cleared - fired:.1f} s more")
    checks = _check(stack)
    tell(f"  {', '.join(f'{name} {state}' for name, state in checks.items())}")
    return DrillOutcome(
        name=drill.name,
        title=drill.title,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        said=said.replace(str(stack.home), ".cutover"),
        detect_seconds=round(fired - began, 1),
        repair_seconds=round(cleared - fired, 1),
        steps=steps,
        checks=checks,
        scale=drill.limits,
    )


def _prepare(drill: Drill, stack: Stack) -> None:
    """Let the driver live, or not, under the drill's definition and limits."""
    if drill.definition or not drill.driver:
        stack.stop_driver()
    if drill.definition:
        stack.define(**drill.definition)
    if drill.driver:
        stack.start_driver()
        stack.await_read()


def _read_page(drill: Drill) -> Page:
    page = read_page(drill.name)
    rot = find_unknown_commands(page)
    if rot:
        raise CutoverError("\n".join(rot))
    return page


def _say_scale(drill: Drill) -> str:
    usual = AlertSettings()
    return ", ".join(f"{name} {value} (of {getattr(usual, name)})" for name, value in drill.limits.items())


def _follow_page(drill: Drill, stack: Stack, page: Page, watching: Watching, tell: Tell) -> tuple[Step, ...]:
    """Run Diagnose, Mitigate and Fix, let others do their part, then run Verify."""
    steps: list[Step] = []
    for section in ("Diagnose", "Mitigate", "Fix"):
        steps += follow(stack, page, section, case=drill.case, tell=tell)
    drill.heal(stack)
    if drill.definition or drill.fresh:
        watching.begin_again()  # a definition that was changed is read once by a process
    steps += follow(stack, page, "Verify", case=drill.case, tell=tell)
    return tuple(steps)


def _check(stack: Stack) -> dict[str, str]:
    """Return what each invariant comes to, batch brought up to date where its newest run says too little.

    Raises:
        CutoverError: One does not hold or cannot be judged.
    """
    checks, said = _verify(stack)
    if UNKNOWN in checks.values():
        stack.require(f"cutover batch {PIPELINE}")
        checks, said = _verify(stack)
    if set(checks.values()) - HELD:
        msg = f"Drill: expected N1 to N6 to hold after the repair, got {checks}:\n{said[:2000]}"
        raise CutoverError(msg)
    return checks


def _verify(stack: Stack) -> tuple[dict[str, str], str]:
    completed = stack.require(f"cutover verify {PIPELINE} --all --json", 0, 1, 2)
    states = {check["check"]: str(check["state"]) for check in json.loads(completed.printed)["checks"]}
    return {name: states.get(name, UNKNOWN) for name in CHECKS}, completed.printed

"""A runbook followed to the letter: its blocks run in order, and what they print held to what the page shows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cutover.errors import CutoverError
from cutover.infra.drills.stack import Stack
from cutover.runbooks.expected import find_missing
from cutover.runbooks.page import Command, Page

Tell = Callable[[str], None]
SAID_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of a page, as it was run."""

    section: str
    line: str
    exit_code: int
    seconds: float


def follow(stack: Stack, page: Page, section: str, *, case: str | None, tell: Tell) -> Iterator[Step]:
    """Run the blocks of a section and yield each command as it ends.

    A command that only looks (section Diagnose) may end with any exit code, since something is broken; every other one
    has to end with 0.

    Raises:
        CutoverError: A command ended otherwise, or did not print what the page shows; with place and output.
    """
    for block in page.choose_blocks(section, case):
        for command in block.commands:
            if not command.line.startswith("cutover "):
                msg = f"{block.place}: expected a command of Cutover, got `{command.line}`; others are examples."
                raise CutoverError(msg)
            yield _run(stack, command, section, place=block.place, tell=tell)


def _run(stack: Stack, command: Command, section: str, *, place: str, tell: Tell) -> Step:
    completed = stack.run(command.line)
    tell(f"  $ {command.line}  (exit {completed.exit_code}, {completed.seconds:.1f} s)")
    output = f"{completed.printed}\n{completed.errors}"
    output_lines = "".join(f"\n  {line}" for line in output.strip().splitlines()[-SAID_LINES:])
    if section != "Diagnose" and completed.exit_code != 0:
        msg = f"{place}: `{command.line}`: expected exit code 0, got {completed.exit_code}:{output_lines}"
        raise CutoverError(msg)
    missing = find_missing(command.expected, output)
    if missing is not None:
        msg = f"{place}: `{command.line}`: expected the line `{missing}`, got:{output_lines}"
        raise CutoverError(msg)
    return Step(section=section, line=command.line, exit_code=completed.exit_code, seconds=round(completed.seconds, 1))

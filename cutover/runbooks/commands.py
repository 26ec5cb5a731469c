"""Checks of a page's commands: of their options, against the command line without running them, and of their output.

In the expected output a number matches any number, and `...` any text.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import typer

from cutover.cli.app import GROUP, build_app
from cutover.runbooks.pages import Page

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

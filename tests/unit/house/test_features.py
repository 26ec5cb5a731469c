"""Feature page: nineteen features, and every command that it names exists with its options."""

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

from cutover.cli.app import build_app

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "features.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`cutover ([^`]+)`", TEXT)) - {"reconcile"})
FEATURES = 19


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words lead to, and the words after its name."""
    command, words_left = typer.main.get_command(build_app(words[0])).commands[words[0]], words[1:]  # type: ignore[attr-defined]  # a group
    subcommands = getattr(command, "commands", None)
    if isinstance(subcommands, dict):  # a group, whose argument may stand before the command's name
        place = next(number for number, word in enumerate(words_left) if word in subcommands)
        command = subcommands[words_left.pop(place)]
    return command, words_left


def test_the_page_has_nineteen_features_in_order() -> None:
    rows = re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)

    assert rows == [str(number) for number in range(1, FEATURES + 1)]


def test_every_feature_has_a_command() -> None:
    rows = [line.split(" | ") for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)]

    assert [row[0] for row in rows if "`cutover " not in row[2] and "pytest" not in row[2]] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_page_exists_with_its_options(line: str) -> None:
    command, words_left = find_command(shlex.split(line))
    options = {option for parameter in command.params for option in parameter.opts}

    assert [word for word in words_left if word.startswith("-") and word not in options] == []
    assert len([word for word in words_left if not word.startswith("-")]) >= sum(
        parameter.required and isinstance(parameter.name, str) for parameter in command.params
    )


def test_a_missing_command_is_noticed() -> None:
    with pytest.raises(StopIteration):
        find_command(["gate", "flights", "no-such-move"])

"""The page of features: it has nineteen, and every command that it names is there with its options."""

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest
import typer

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "features.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`cutover ([^`]+)`", TEXT)) - {"reconcile"})
FEATURES = 19
ROOMS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][
    "cutover.commands"
]


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words lead to, and the words behind its name; by `pyproject.toml`, installed or not."""
    room = ROOMS[words[0]].partition(":")[0]
    each = import_module(room).COMMANDS[words[0]]
    app = each if isinstance(each, typer.Typer) else typer.Typer()
    if app is not each:
        app.command()(each)
    found, rest = typer.main.get_command(app), words[1:]
    commands = getattr(found, "commands", None)
    if isinstance(commands, dict):  # a group, whose argument may stand before the command's name
        place = next(number for number, word in enumerate(rest) if word in commands)
        found = commands[rest.pop(place)]
    return found, rest  # type: ignore[return-value] # Typer has a copy of click


def test_the_page_has_nineteen_features_in_order() -> None:
    rows = re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)

    assert rows == [str(number) for number in range(1, FEATURES + 1)]


def test_every_feature_has_a_command() -> None:
    rows = [line.split(" | ") for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)]

    assert [row[0] for row in rows if "`cutover " not in row[2] and "pytest" not in row[2]] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_page_is_there_with_its_options(line: str) -> None:
    found, rest = find_command(shlex.split(line))
    known = {option for parameter in found.params for option in parameter.opts}

    assert [word for word in rest if word.startswith("-") and word not in known] == []
    assert len([word for word in rest if not word.startswith("-")]) >= sum(
        parameter.required and isinstance(parameter.name, str) for parameter in found.params
    )


def test_a_command_that_is_not_there_is_noticed() -> None:
    with pytest.raises(StopIteration):
        find_command(["gate", "flights", "no-such-move"])

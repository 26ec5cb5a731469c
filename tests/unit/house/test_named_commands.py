"""Every command named in a message, report, page or document is valid as printed."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from cutover.cli.app import GROUP, build_app
from tests.support.suite.sources import parse_source

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("cutover", "batch", "streaming", "reconcile", "infra", "dags", "samples", "pipelines")
VALUE = "1"
"""Placeholder for a value that a message fills in; it parses as a name, a number and a time."""

_INLINE = re.compile(r"`(cutover [^`\n]+)`")
_TYPED = re.compile(r"^\s*(?:\$ )?(cutover [^\n]+)$", re.MULTILINE)
_FENCED = re.compile(r"^```(?:console|bash|sh)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|<[a-z ]+>|%[sd]|\b[A-Z]\b")
_IS_LEFT_OUT = re.compile(r"^Missing (?:argument|option)|requires an argument")
_OPTIONS = {"windows", "windows or '--dirty'", "cut", "option"}
"""Values of messages that are options, as their source has them."""

_ENDS = ("|", ">", ">>", "2>", "2>&1", "&&", "||", "#", ";", "&")
"""Words of a shell that end a command."""


@cache
def room_of(name: str) -> Any:
    """Return the command line with the commands of one room, as Typer makes it."""
    return typer.main.get_command(build_app(name))


@cache
def refusal(line: str, *, mention: bool = False) -> str | None:
    """Find the reason why a command line is invalid; None if it is valid.

    Args:
        line: `cutover ...`. The name of a command alone only has to exist.
        mention: Whether arguments and values may be left out, as in a document that speaks of the command.
    """
    try:
        words = list(takewhile(lambda word: word not in _ENDS, shlex.split(line.replace("; ", " ; "), comments=True)))[
            1:
        ]
    except ValueError as error:
        return str(error)
    if not words or words[0].startswith("-") or words[0] in {"...", "COMMAND", VALUE}:
        return None
    if words[0] not in entry_points(group=GROUP).names:
        return f"no command {words[0]}"
    reason = _parse(words)
    return None if mention and reason is not None and _IS_LEFT_OUT.search(reason) else reason


def _parse(words: list[str]) -> str | None:
    command, context = room_of(words[0]), None
    try:
        while True:
            if len(words) == 1 and words[0] in getattr(command, "commands", ()):
                return None  # the command itself is named, such as `cutover gate`
            context = command.make_context("cutover", list(words), parent=context)
            if not hasattr(command, "commands"):
                return None
            _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    except TyperException as error:
        is_absent = "does not exist" in error.format_message()  # the file of an example
        return None if is_absent else error.format_message()
    except typer.Exit:
        return "no argument"


def text_of(node: ast.AST) -> str:
    """Return a string as it is printed, with a value where one is filled in, and nothing where several are."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        if ast.unparse(node.value) in _OPTIONS:
            return ""
        return "" if any(isinstance(part, ast.GeneratorExp | ast.IfExp) for part in ast.walk(node)) else VALUE
    return "".join(map(text_of, node.values)) if isinstance(node, ast.JoinedStr) else ""


def list_texts(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield each text of a file, and whether it is a document: then a command may be mentioned in it."""
    if file.suffix != ".py":
        yield file.read_text(encoding="utf-8"), file.suffix == ".md"
        return
    tree = parse_source(file)
    nested = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and id(node) not in nested):
            yield text_of(node), id(node) in documents


def list_lines(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield the command lines that a file names, and whether they may be mentions."""
    for text, is_document in list_texts(file):
        typed = []
        if file.suffix == ".md":
            typed = [line for block in _FENCED.findall(text) for line in _TYPED.findall(block.replace("\\\n", " "))]
        for line in typed:
            yield _fill(line), False
        for line in _INLINE.findall(_FENCED.sub("", text) if "[^" not in text else ""):
            yield _fill(line), is_document


def _fill(line: str) -> str:
    """Return a line with a value for each placeholder, the first of alternatives, and what is optional."""
    line = re.sub(r"\[([^\]^]*)\]", r"\1", line) if " [" in line else line
    return re.sub(r"\b([a-z]+)(?:\|[a-z]+)+", r"\1", _PLACEHOLDER.sub(VALUE, line))


def list_files() -> list[Path]:
    sources = [file for room in ROOMS for kind in ("*.py", "*.j2") for file in sorted((ROOT / room).rglob(kind))]
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return list(dict.fromkeys(file.resolve() for file in (*sources, *documents)))


def test_every_named_command_is_valid_as_printed() -> None:
    refused = [
        f"{file.relative_to(ROOT)}: `{line}`: {reason}"
        for file in list_files()
        for line, mention in dict.fromkeys(list_lines(file))
        if (reason := refusal(line, mention=mention)) is not None
    ]

    assert refused == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cutover nosuch P", "no command nosuch"),
        ("cutover batch commits", None),
        ("cutover batch 1 --versoin 1", "versoin"),
        ("cutover savepoint 1 forget", "forget"),
        ("cutover explain 1", "WINDOW"),
        ("cutover serve 1 --version x --why y", "--version"),
        ("cutover gate 1 advance", "--why"),
        ("cutover gate 1 show", None),
        ("cutover sql 1 'SELECT 1' > rows.csv", None),
        ("cutover --help", None),
    ],
)
def test_invalid_command_line_is_noticed(line: str, reason: str | None) -> None:
    refused_because = refusal(line)

    assert (refused_because is None) if reason is None else (reason.lower() in str(refused_because).lower())


def test_a_line_is_read_from_messages_pages_and_templates(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('MSG = f"Next: `cutover batch {name} --version {n}`."\n', encoding="utf-8")
    (tmp_path / "b.md").write_text("`cutover up`\n```console\n$ cutover watch P --once\nok\n```\n", encoding="utf-8")
    (tmp_path / "c.j2").write_text("{{ x }} <b>`cutover gate {{ r.pipeline }} show`</b>", encoding="utf-8")

    lines = [line for name in ("a.py", "b.md", "c.j2") for line, _ in list_lines(tmp_path / name)]

    assert lines == ["cutover batch 1 --version 1", "cutover watch 1 --once", "cutover up", "cutover gate 1 show"]


def test_only_documents_may_mention_a_command_without_arguments() -> None:
    assert refusal("cutover verify --all", mention=True) is None
    assert refusal("cutover verify --every", mention=True) is not None
    assert "pipeline" in str(refusal("cutover verify --all"))

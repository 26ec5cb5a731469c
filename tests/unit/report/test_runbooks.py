"""Every page that code names exists, every page is named, and none lacks a section."""

import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer

from cutover.cli.app import GROUP, build_app
from cutover.reconcile.report import runbooks, verdicts
from cutover.reconcile.watch.alerts.rules import SEVERITIES

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "runbooks"
ROOMS = ("cutover", "streaming", "batch", "reconcile", "infra", "dags")
PAGES = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
SECTIONS = ["Meaning", "First look", "Mend", "Verify", "Do not"]
VERDICTS = {name for name in verdicts.RUNBOOKS.values() if name is not None}
NAMED = re.compile(r'runbook=(?:[\w.]+ or )?"([A-Za-z]+)"|docs/runbooks/([A-Za-z]+)\.md')


def sources() -> str:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_page_that_code_names_exists() -> None:
    named = {one or other for one, other in NAMED.findall(sources())}

    assert (named | VERDICTS) - PAGES == set()


def test_every_page_is_named_by_code_or_by_a_verdict() -> None:
    quoted = set(re.findall(r'"([A-Z][A-Za-z]+)"', sources()))

    assert PAGES - quoted - VERDICTS == set()


@pytest.mark.parametrize("name", sorted(SEVERITIES))
def test_alert_has_a_page_that_states_its_severity(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")

    assert f"Severity: {SEVERITIES[name]}. Data risk: " in text


def test_page_that_is_no_alert_is_one_of_an_error_or_a_verdict() -> None:
    by_errors = {one or other for one, other in NAMED.findall(sources())}

    assert PAGES - set(SEVERITIES) - by_errors - VERDICTS == set()


def test_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\((\w+)\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8")))

    assert listed == PAGES


@pytest.mark.parametrize("page", sorted(PAGES))
def test_page_has_its_sections_in_order(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)

    assert (text.splitlines()[0], found) == (f"# {page}", SECTIONS)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_of_a_page_lead_to_pages(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")

    assert set(re.findall(r"\]\((\w+)\.md\)", text)) <= PAGES


def test_page_is_shown_below_the_reports_own_headings() -> None:
    shown = runbooks.html("LateRateHigh")

    assert shown is not None
    assert "<h3>Meaning</h3>" in shown


@pytest.mark.parametrize("name", ["../README", "no such page", "", "Nowhere", "a/b"])
def test_name_that_is_no_page_shows_nothing(name: str) -> None:
    assert runbooks.html(name) is None


def command_lines() -> list[tuple[str, str]]:
    """Return page and line of every `cutover ...` in the runbooks, without its comment or output."""
    pattern = re.compile(r"(?:^\$ |`)(cutover [^`\n]+)", flags=re.MULTILINE)
    return [(page, line) for page in sorted(PAGES) for line in pattern.findall((FOLDER / f"{page}.md").read_text())]


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    """Return the command line's commands by name, as Typer makes them."""
    rooms = {entry.module: entry.name for entry in entry_points(group=GROUP)}
    apps = (typer.main.get_command(build_app(name)) for name in rooms.values())
    return {name: command for app in apps for name, command in vars(app)["commands"].items()}


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_of_a_runbook_exists_with_its_options(page: str, line: str, commands: dict[str, Any]) -> None:
    _, name, *rest = shlex.split(line)
    command = commands[name]
    if hasattr(command, "commands"):  # `gate P show`, `dimension load`
        command = command.commands[next(word for word in rest if word in command.commands)]
    known = {option for parameter in command.params for option in parameter.opts}

    assert {word for word in rest if word.startswith("--")} - known == set(), page

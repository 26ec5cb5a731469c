"""Runbook pages: every named page exists, every page is named and complete, and its commands are valid."""

import re
from pathlib import Path

import pytest
import yaml

from cutover import runbooks
from cutover.infra.drills.catalogue import DRILLS
from cutover.infra.drills.perform import check_line, find_unknown_commands
from cutover.reconcile.verdict import decision
from cutover.reconcile.watch.alerts.catalogue import ALERTS, ALERTS_BY_NAME
from cutover.runbooks import split_head

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("cutover", "streaming", "batch", "reconcile", "infra", "dags")
PAGES = runbooks.list_runbooks()
VERDICTS = {name for name in decision.RUNBOOKS.values() if name is not None}
NAMED = re.compile(r'runbook=(?:[\w.]+ or )?"([A-Za-z]+)"|docs/runbooks/([A-Za-z]+)\.md')
OWNERS = {"platform", "pipeline", "producers"}
UNFINISHED = re.compile(r"\b(TODO|TBD|FIXME|XXX)\b")


def sources() -> str:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_page_that_code_names_exists() -> None:
    named_pages = {match or other for match, other in NAMED.findall(sources())}

    assert (named_pages | VERDICTS) - set(PAGES) == set()


def test_every_page_is_named_by_code_or_by_a_verdict() -> None:
    quoted = set(re.findall(r'"([A-Z][A-Za-z]+)"', sources()))

    assert set(PAGES) - quoted - VERDICTS == set()


def test_every_alert_has_the_page_of_its_name() -> None:
    assert {spec.name for spec in ALERTS} - set(PAGES) == set()


@pytest.mark.parametrize("name", PAGES)
def test_page_names_its_alert_or_why_it_has_none(name: str) -> None:
    head = runbooks.read_page(name).head

    assert head.alert == name if name in ALERTS_BY_NAME else head.no_alert


@pytest.mark.parametrize("name", PAGES)
def test_page_names_an_existing_drill_or_why_it_has_none(name: str) -> None:
    head = runbooks.read_page(name).head

    assert head.drill == name if name in DRILLS else head.no_drill


def test_every_drill_has_a_page() -> None:
    assert set(DRILLS) - set(PAGES) == set()


@pytest.mark.parametrize("name", PAGES)
def test_case_of_a_drill_exists_in_its_page(name: str) -> None:
    cases = {block.case for block in runbooks.read_page(name).blocks}

    assert name not in DRILLS or DRILLS[name].case in cases | {None}


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_exist_with_their_options(name: str) -> None:
    assert find_unknown_commands(runbooks.read_page(name)) == []


@pytest.mark.parametrize("name", PAGES)
def test_page_is_finished(name: str) -> None:
    assert UNFINISHED.search(runbooks.read_text(name) or "TODO") is None


@pytest.mark.parametrize("name", PAGES)
def test_head_is_yaml_and_names_an_owner(name: str) -> None:
    head, _ = split_head(runbooks.read_text(name) or "")

    assert yaml.safe_load(head.strip("-\n"))["owner"] in OWNERS


def test_index_lists_every_page() -> None:
    listed_pages = set(re.findall(r"\]\((\w+)\.md\)", (runbooks.FOLDER / "README.md").read_text(encoding="utf-8")))

    assert listed_pages == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_to_pages(name: str) -> None:
    assert set(re.findall(r"\]\((\w+)\.md\)", runbooks.read_text(name) or "")) <= set(PAGES)


def test_page_for_on_call_has_commands_and_links_that_exist() -> None:
    text = (runbooks.FOLDER / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"(?:^\$ |`)(cutover [^`\n]+)", text, flags=re.MULTILINE)

    assert [(line, check_line(line)) for line in lines if check_line(line) is not None] == []


@pytest.mark.parametrize("name", PAGES)
def test_page_begins_with_the_first_step(name: str) -> None:
    _, _, body = (runbooks.read_text(name) or "").partition(f"\n# {name}\n")

    assert body.startswith("\n**First:** ")

"""Fault page generated from recorded results only."""

import re
from dataclasses import replace
from pathlib import Path

from tests.faults import catalogue
from tests.faults.fault import ALWAYS, Fault, RunElsewhere
from tests.faults.result import Result, read
from tests.faults.table import SOMETIMES, at_random, list_never_seen, page

DOCS = Path(__file__).parents[3] / "docs"
FAULT = Fault(id="F98", variant="a", family="kafka", title="a | b", inject=lambda _: None, happened=lambda _: True)
ABSENT = RunElsewhere(id="F98", variant="b", family="kafka", title="other", location="tests/e2e")
PROVEN = Result(
    fault="F98-a", outcome="proven", checks=ALWAYS, holds=("all is there",), alerts=("LogDataLost",), seed=7
)


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_a_fault_without_a_result_is_not_proven() -> None:
    text = page([FAULT], [ABSENT], {"F99": "nobody wrote it"}, {})

    assert row(text, "F98-a")[1:4] == ["a \\| b", "not proven", ""]
    assert row(text, "F98-b")[2] == "run by tests/e2e"
    assert row(text, "F99")[2] == "not proven"
    assert "0 faults proven, 2 not proven, 1 run by other tests." in text


def test_a_result_is_shown_with_what_held() -> None:
    text = page([FAULT], [], {}, {"F98-a": PROVEN})

    assert row(text, "F98-a")[2:6] == ["**proven**", "N1 to N6", "all is there", "LogDataLost"]
    assert "Seed: 7." in text


def test_a_violation_is_shown_in_short() -> None:
    failed = replace(
        PROVEN, outcome="not proven", why="NotProvenError: N1: a row\nis | missing " + "x" * 300, checks=()
    )

    cells = row(page([FAULT], [], {}, {"F98-a": failed}), "F98-a")

    assert cells[2].startswith("not proven: N1: a row is \\| missing xxx")
    assert len(cells[2]) < 200


def test_a_game_of_the_random_mode_is_shown_with_its_seed() -> None:
    result = replace(PROVEN, fault="random-7", evidence={"harms": ["broker killed: 2"], "epochs": 70})

    assert "| 7 | **proven** | N1 to N6 | 70 | broker killed: 2 |" in at_random([result])


def test_events_that_never_happened_are_named_after_all_faults_ran() -> None:
    tame = {fault.name: replace(PROVEN, fault=fault.name) for fault in catalogue.everything()}
    first_fault, *_ = tame
    harsh = tame | {first_fault: replace(tame[first_fault], sometimes=tuple(SOMETIMES)[1:])}

    assert list_never_seen(tame) == list(SOMETIMES.values())
    assert list_never_seen(harsh) == [next(iter(SOMETIMES.values()))]
    assert list_never_seen({name: result for name, result in tame.items() if name != first_fault}) == []


def test_names_are_unique_and_every_promised_fault_is_in_the_page() -> None:
    names = [fault.name for fault in catalogue.everything()]
    text = page(catalogue.everything(), catalogue.run_elsewhere(), catalogue.list_promised(), {})

    assert len(names) == len(set(names))
    assert all(re.search(rf"^\| {name}[- ]", text, re.MULTILINE) for name in catalogue.PROMISED)
    assert "**proven**" not in text


def test_the_published_page_calls_nothing_proven_without_a_result() -> None:
    results = read(DOCS / "faults.jsonl")
    published = (DOCS / "faults.md").read_text(encoding="utf-8") if (DOCS / "faults.md").exists() else ""
    claimed = re.findall(r"^\| (F\S+) \|.*\| \*\*proven\*\* \|", published, re.MULTILINE)

    assert [name for name in claimed if results[name].outcome != "proven"] == []

"""Drill outcomes: stored by name, shown in the table, and written into the page's head."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from cutover import runbooks
from cutover.infra.drills import sequence
from cutover.infra.drills.perform import DrillOutcome, Step

STEP = Step(section="Fix", line="cutover batch flights", exit_code=0, seconds=9.0)
OUTCOME = DrillOutcome(
    name="NoInput",
    title="nobody sends any more",
    at="2026-11-24T22:00:00+00:00",
    said="nothing was sent for 20 s",
    detect_seconds=21.4,
    repair_seconds=3.0,
    steps=(STEP, STEP),
    checks={"N1": "held"},
    scale={"rate_seconds": 12.0},
)


def test_newest_outcome_of_a_drill_replaces_the_previous_one(tmp_path: Path) -> None:
    file = tmp_path / "drills.json"
    for outcome in (OUTCOME, replace(OUTCOME, name="ClockSkew"), replace(OUTCOME, detect_seconds=7.0)):
        sequence.add_result(file, outcome)

    assert {name: row["detect_seconds"] for name, row in sequence.read_results(file).items()} == {
        "NoInput": 7.0,
        "ClockSkew": 21.4,
    }


def test_table_has_a_row_for_each_drill_and_for_pages_without_one(tmp_path: Path) -> None:
    sequence.add_result(tmp_path / "drills.json", OUTCOME)
    parsed_pages = [runbooks.read_page(name) for name in ("NoInput", "PortInUse")]

    text = sequence.make_results_page(parsed_pages, sequence.read_results(tmp_path / "drills.json"))

    row = "nobody sends any more | 21.4 s | 3.0 s | 2 | `rate_seconds` 12 | 2026-11-24"
    assert f"| [NoInput](runbooks/NoInput.md) | {row} |" in text.splitlines()
    assert "| [PortInUse](runbooks/PortInUse.md) | " in text


def test_only_the_times_in_the_head_of_a_page_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_before = runbooks.read_text("NoInput") or ""
    (tmp_path / "NoInput.md").write_text(page_before, encoding="utf-8")
    monkeypatch.setattr(runbooks, "FOLDER", tmp_path)

    runbooks.write_times("NoInput", day=date(2031, 2, 3), detect_seconds=21.44, repair_seconds=3)

    head = runbooks.read_page("NoInput").head
    assert (head.last_drilled, head.detect_seconds, head.repair_seconds) == (date(2031, 2, 3), 21.4, 3.0)
    assert (runbooks.read_text("NoInput") or "").partition("# NoInput")[2] == page_before.partition("# NoInput")[2]

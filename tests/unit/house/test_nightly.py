"""Nightly targets: each opt-in target is on the list, and the page shows how its last run ended."""

import re
from pathlib import Path

import pytest

from tests import nightly
from tests.nightly import TARGETS, Outcome, PartRun, Target

DAILY = {f"test-{kind}" for kind in ("unit", "spec", "property", "dags", "integration", "faults", "e2e")} | {"test"}
FAILED = Outcome(exit_code=2, seconds=90, at="2026-11-22T01:00+00:00", revision="abc1234")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / nightly.PAGE).write_text(f"# Tests\n\n{nightly.BEGIN}{nightly.END}\n", encoding="utf-8")
    return tmp_path


def named(*names: str) -> list[Target]:
    return [target for target in TARGETS if target.name in names]


def passed(_: PartRun) -> Outcome:
    return Outcome(exit_code=0, seconds=60, at="2026-11-22T02:00+00:00", revision="def5678")


def test_every_opt_in_test_target_runs_at_night() -> None:
    makefile = Path(__file__).parents[3].joinpath("Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^((?:test|faults|flips|transfers|soak)[a-z-]*):", makefile, re.MULTILINE))

    assert {target.name for target in TARGETS} == targets - DAILY


def test_page_keeps_the_outcome_of_targets_that_did_not_run(tree: Path) -> None:
    nightly.run_targets(named("transfers"), lambda _: FAILED)
    nightly.run_targets(named("test-cluster"), passed)
    rows = [line for line in (tree / nightly.PAGE).read_text().splitlines() if line.startswith("| `make")]

    ends = [" | ".join(row.split(" | ")[2:]) for row in rows]
    by_name = dict(zip([target.name for target in TARGETS], ends, strict=True))
    assert by_name["test-cluster"] == "passed | 1 | 2026-11-22 02:00 | def5678 |"
    assert by_name["transfers"] == "**failed** (exit code 2) | 2 | 2026-11-22 01:00 | abc1234 |"
    assert [end.startswith("never run") for end in ends] == [
        t.name not in {"transfers", "test-cluster"} for t in TARGETS
    ]


@pytest.mark.usefixtures("tree")
def test_one_failure_is_a_failure_of_the_night() -> None:
    targets = named("transfers", "test-cluster")

    assert nightly.run_targets(targets, lambda run: FAILED if run.name == "transfers" else passed(run)) == 1
    assert nightly.run_targets(targets, passed) == 0


@pytest.mark.usefixtures("tree")
def test_parts_that_waited_longest_run_first_and_the_page_says_how_many_ran() -> None:
    target = Target(name="soak", shows="growth", parts=3)
    ran: list[str] = []

    def run_until_second(run: PartRun) -> Outcome:
        ran.append(run.command[-1])
        return Outcome(exit_code=0, seconds=60, at=f"2026-11-22T0{len(ran)}:00+00:00", revision=f"r{len(ran)}")

    nightly.run_targets([target], run_until_second, minutes=-1)
    assert ran == []
    nightly.run_targets([target], run_until_second)
    outcomes = nightly.read_outcomes()
    del outcomes["soak-2-of-3"]

    assert ran == ["PART=1/3", "PART=2/3", "PART=3/3"]
    assert [run.name for run in nightly.list_longest_waiting([target], outcomes)] == [
        "soak-2-of-3",
        "soak-1-of-3",
        "soak-3-of-3",
    ]
    assert "| passed, 2 of 3 parts | 2 | 2026-11-22 01:00 to 2026-11-22 03:00 | r1 to r3 |" in nightly.format_table(
        [target], outcomes
    )


def test_one_failed_part_is_a_failure_of_its_target() -> None:
    target = Target(name="soak", shows="growth", parts=2)
    outcomes = {"soak-1-of-2": FAILED, "soak-2-of-2": passed(target.runs[1])}

    assert "| **failed** (exit code 2) |" in nightly.format_table([target], outcomes)


def test_unknown_target_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert nightly.main(["--only", "soak,nothing"]) == 2
    assert "got ['nothing']" in capsys.readouterr().err

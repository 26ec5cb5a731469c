import json
from pathlib import Path

import pytest

from tests.support.pages import capabilities
from tests.support.pages.capability_table import page
from tests.support.pages.followed_kinds import render_followed_kinds


def test_cell_names_the_tests_that_cover_it_or_is_empty() -> None:
    evidence = [
        {"feature": "window: daily", "runner": "batch", "test": "tests/b.py::test_b[1]"},
        {"feature": "window: daily", "runner": "batch", "test": "tests/b.py::test_b[2]"},
        {"feature": "window: daily", "runner": "reference", "test": "tests/a.py::test_a"},
    ]

    table = page(evidence)

    assert "| window: daily | 1 |  | 2 |" in table
    assert "1. `tests/a.py::test_a`\n2. `tests/b.py::test_b`\n" in table


def test_page_names_the_jobs_that_can_be_followed_as_the_checks_do() -> None:
    written = Path("docs/capabilities.md").read_text(encoding="utf-8")

    assert written.endswith(render_followed_kinds()), "make capabilities"


def test_failing_test_covers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "found.jsonl"
    monkeypatch.setenv("CUTOVER_CAPABILITIES", str(place))
    capabilities.note_feature("window: fixed", "batch")
    capabilities.settle("tests/a.py::test_a", has_passed=False)
    assert not place.exists()

    capabilities.note_feature("window: fixed", "batch")
    capabilities.settle("tests/a.py::test_a", has_passed=True)

    assert json.loads(place.read_text(encoding="utf-8"))["test"] == "tests/a.py::test_a"

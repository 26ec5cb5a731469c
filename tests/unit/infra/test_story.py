"""The page of a demonstration: what happened in order, and no text that breaks its table."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cutover.infra.demo.retirement import _WEEKS, Story, StoryLine, describe_story


def test_page_has_a_row_for_each_thing_in_order() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    lines = [StoryLine(at=at, seconds=n, kind="stage", text=text) for n, text in enumerate(["a | b", "c\nd"])]

    rows = describe_story(lines, 61.0).splitlines()[-2:]

    assert rows == ["| 12:00:00 | 0 | stage | a \\| b |", "| 12:00:00 | 1 | stage | c d |"]


def test_events_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(page=tmp_path / "reports" / "page.md")

    story.record("stage", "flights is in KAPPA")

    assert "stage: flights is in KAPPA" in capsys.readouterr().out
    assert "flights is in KAPPA" in story.write(2.0).read_text()


def test_weeks_are_consecutive() -> None:
    assert len(_WEEKS) == 3 + 3 + 2
    assert [week.end for week in _WEEKS[:-1]] == [week.start for week in _WEEKS[1:]]

"""A runbook within a report: its page without the head, below the report's own headings."""

import pytest

from cutover.reconcile.report import steps


def test_page_is_shown_below_the_reports_own_headings() -> None:
    markup = steps.html("LateRateHigh")

    assert markup is not None
    assert "<h3>Meaning</h3>" in markup


def test_page_is_shown_without_its_head() -> None:
    markup = steps.html("LateRateHigh")

    assert markup is not None
    assert "last_drilled" not in markup


@pytest.mark.parametrize("name", ["../README", "no such page", "", "Nowhere", "a/b"])
def test_name_that_is_no_page_shows_nothing(name: str) -> None:
    assert steps.html(name) is None

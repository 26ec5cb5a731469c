"""The page of metrics lists exactly the published metrics."""

from pathlib import Path

from tests.support.pages.metric_table import replace_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def test_page_lists_every_metric() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == replace_table(text), "run `.venv/bin/python -m tests.support.pages.metric_table docs/metrics.md`"

"""Output of a comparison on a terminal: counts are of records, and no zero hides existing records."""

import pytest

from cutover.output.console import Output, render
from cutover.reconcile.cli import reconcile
from cutover.reconcile.report.page import render_page
from cutover.reconcile.result.finding import Cause, Events
from cutover.reconcile.result.parts import JobCell, JobTable
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report


def test_malformed_records_are_counted_where_no_difference_is_behind_them(capsys: pytest.CaptureFixture[str]) -> None:
    causes = {name: Cause() for name in ("late", "malformed", "unexplained")}
    result = change_report(flights(), events=Events(accepted=221, malformed=42), causes=causes)

    render(iter([Output(lines=reconcile.list_comparison_lines(result, None))]))

    lines = capsys.readouterr().out.splitlines()
    assert "records  221 counted, 42 malformed" in lines
    assert [line for line in lines if "malformed" in line] == ["records  221 counted, 42 malformed"]
    assert any(line.split() == ["unexplained", "0", "0"] for line in lines)


def test_all_records_that_counted_need_no_further_word() -> None:
    assert reconcile.describe_records(Events(accepted=1_000)) == "1,000 counted"


JOBS = (
    JobTable(
        side="streaming", level="reproduced", batch=41, version=42, fingerprint="a", rows=288, different=0, values=576,
        different_values=0,
    ),
    JobTable(
        side="batch", level="bounded", batch=None, version=7, fingerprint="b", rows=144, different=2, values=288,
        different_values=3, not_judged=9, position="payments 0:22 1:25..27",
        cells=(
            JobCell(
                window_start="2026-01-01T00:00:00Z", key={"shop": "<b>"}, measure="n", kind="changed", job=1, expected=2
            ),
        ),
    ),
)  # fmt: skip


def test_each_job_is_shown_with_its_level_and_the_different_one_with_its_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = change_report(flights(), jobs=JOBS)

    render(iter([Output(lines=reconcile.list_comparison_lines(result, None))]))

    lines = capsys.readouterr().out.splitlines()
    streaming = "reproduced at batch 41 (version 42 of its table): all 288 rows are what the definition says"
    assert f"streaming job  {streaming}" in lines
    level = "bounded at version 7 of its table, up to payments 0:22 1:25..27, 9 rows not judged"
    assert f"batch job  {level}: 2 of 144 rows differ" in lines
    assert "2 rows of the batch job differ" in " ".join(lines)


def test_the_page_shows_both_jobs_with_escaped_keys() -> None:
    html = render_page(change_report(flights(), jobs=JOBS))

    assert "Your streaming job: reproduced" in html
    assert "Your batch job: bounded" in html
    assert "9 rows" in html
    assert "<b>" not in html.partition('id="jobs"')[2].partition("</section>")[0]

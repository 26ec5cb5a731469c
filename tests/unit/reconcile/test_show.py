"""Output of a comparison on a terminal: counts are of records, and no zero hides existing records."""

import pytest

from cutover.output.console import Output, render
from cutover.reconcile.cli import show
from cutover.reconcile.result.finding import Cause, Events
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report


def test_malformed_records_are_counted_where_no_difference_is_behind_them(capsys: pytest.CaptureFixture[str]) -> None:
    causes = {name: Cause() for name in ("late", "malformed", "unexplained")}
    result = change_report(flights(), events=Events(accepted=221, malformed=42), causes=causes)

    render(iter([Output(lines=show.list_comparison_lines(result, None))]))

    lines = capsys.readouterr().out.splitlines()
    assert "records  221 counted, 42 malformed" in lines
    assert [line for line in lines if "malformed" in line] == ["records  221 counted, 42 malformed"]
    assert any(line.split() == ["unexplained", "0", "0"] for line in lines)


def test_all_records_that_counted_need_no_further_word() -> None:
    assert show.describe_records(Events(accepted=1_000)) == "1,000 counted"

"""Sheet of a report, which names the place where it was truncated."""

import csv

from cutover.reconcile.report.files import format_csv
from tests.support.history.reconciliations import flights
from tests.support.history.reports import change_report


def test_a_truncated_sheet_ends_with_a_note() -> None:
    result = flights()

    head, *_, last_row = csv.reader(format_csv(result).splitlines())

    assert last_row[0] == f"cut here: {len(result.finding.differences)} of 230 differing cells are listed"
    assert last_row[1:] == [""] * (len(head) - 1)


def test_a_sheet_with_every_difference_ends_with_one() -> None:
    result = flights()
    report = change_report(result, differences_total=len(result.finding.differences))

    assert len(format_csv(report).splitlines()) == 1 + len(result.finding.differences)
    assert "cut here" not in format_csv(report)

"""The differences of a report as a CSV sheet."""

import io
from collections.abc import Iterator
from itertools import chain

from cutover.definition.loading.key_text import make_cells
from cutover.output.cells import write_rows
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.report import Report


def format_csv(result: Report) -> str:
    """Return the report's differences as CSV: window, key columns, measure, both values, difference, row, cause, rule.

    Where the report lists some of them only, the last line says of how many.
    """
    if not result.finding.differences:
        return ""
    columns = [
        "window_start",
        *result.finding.differences[0].key,
        "measure",
        result.finding.sides.expected,
        result.finding.sides.actual,
    ]
    columns += ["difference", "row", "cause", "accepted_by"]
    text = io.StringIO()
    write_rows(text, chain([columns], map(_values, result.finding.differences), _format_cut_line(result, len(columns))))
    return text.getvalue()


def _values(difference: Difference) -> list[object]:
    return [
        difference.window_start,
        *make_cells(difference.key.values()),
        difference.measure,
        difference.batch,
        difference.streaming,
        difference.difference,
        difference.kind,
        difference.cause,
        difference.accepted_by,
    ]


def _format_cut_line(result: Report, columns: int) -> Iterator[list[str]]:
    """Give the last line of a sheet that lists some of the differences only."""
    listed_count = len(result.finding.differences)
    if listed_count < result.finding.differences_total:
        cut_text = f"cut here: {listed_count:,} of {result.finding.differences_total:,} differing cells are listed"
        yield [cut_text, *("" for _ in range(1, columns))]

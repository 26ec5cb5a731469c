"""A report as Markdown for a pull request, in tables that stay short, and its differences as a CSV sheet."""

import io
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cutover.definition.loading.key_text import format_columns, make_cells
from cutover.output.cells import write_rows
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result import cost, lateness_text, text
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.parts import list_uncounted
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import describe_equal_within, describe_readings

_TEMPLATES = Path(__file__).parent / "templates"
_SPECIAL = re.compile(r"[^\w \-.,:;=+/%()]", re.ASCII)
SHOWN = 20


def render_markdown(result: Report) -> str:
    """Return the report of one comparison as Markdown; texts of data cannot become markup, links or mentions."""
    causes = [
        (name, cause.rows, cause.events)
        for name, cause in result.finding.causes.items()
        if cause.rows or name == UNEXPLAINED
    ]
    return (
        _environment()
        .get_template("report.md.j2")
        .render(
            r=result.finding,
            run=result.run,
            report=result,
            causes=causes,
            listed_differences=result.finding.differences[:SHOWN],
            advice_heads=advice_text.HEADS,
            proof_heads=advice_text.PROOF_HEADS,
            cost=cost.describe_lines(result.cost),
            readings=(*describe_readings(result.finding.readings), *describe_equal_within(result.finding.equal_within)),
            uncounted=() if result.self_test is None else list_uncounted(result.self_test),
            settled=None
            if result.settlement is None
            else lateness_text.describe_settlement(result.settlement, result.finding.own_stream),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 -- Markdown: `md` writes whatever comes from data
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for function in (
        text.format_number,
        text.count_noun,
        text.when,
        text.duration,
        text.share,
        text.describe_lives,
        *lateness_text.FILTERS,
        *advice_text.FILTERS,
    ):
        environment.filters[function.__name__] = function
    environment.filters["key_text"] = format_columns
    environment.filters["md"] = escape
    return environment


def escape(value: object) -> str:
    """Return a text in which every sign that Markdown or HTML could read is a character reference."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text.message(str(value)))


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

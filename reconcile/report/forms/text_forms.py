"""A report in plain text: as Markdown for a pull request, its differences as a CSV sheet, and Prometheus metrics.

The tables of the Markdown stay short. A metric has one sample a figure and labels of a bounded number.

Source: Prometheus documentation, exposition formats, and its naming conventions (base units, `_total` for counters).
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from cutover.definition.loading.key_text import format_columns, make_cells
from cutover.output.cells import write_rows
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.result import cost, lateness_text, text
from cutover.reconcile.result.cost import PathCosts
from cutover.reconcile.result.finding import Difference, Verdict
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


def render_prometheus(reports: Iterable[Report]) -> str:
    """Return the newest comparison of each pipeline in Prometheus' text format.

    Args:
        reports: At most one of a pipeline.
    """
    registry = CollectorRegistry()
    gauges = {
        name: Gauge(f"cutover_reconciliation_{name}", help_text, ["pipeline", *labels], registry=registry)
        for name, (help_text, labels) in _GAUGES.items()
    }
    for result in reports:
        for name, labels, value in _samples(result):
            gauges[name].labels(result.finding.pipeline, *labels).set(value)
    return generate_latest(registry).decode()


_GAUGES: Mapping[str, tuple[str, list[str]]] = {
    "verdict": ("1 for the verdict of the newest comparison, 0 for the others", ["verdict"]),
    "timestamp_seconds": ("Time of the comparison, Unix time", []),
    "epoch": ("Epoch of its cut", []),
    "windows": ("Windows by state", ["state"]),
    "rows": ("(window, key) rows by kind", ["kind"]),
    "cause_rows": ("(window, key) rows that a cause takes part in", ["cause"]),
    "late_ratio": ("Late of accepted and late (record, window) pairs", []),
    "within_policy": ("1 where it is within the policy", []),
    "selftest_passed": ("1 where the newest self-test of the reconciler was passed", []),
    "path_core_seconds": ("Processor time that a path has used, of the runs that recorded it", ["path"]),
    "path_written_bytes": ("Size of the data files that a path has added to its tables", ["path"]),
    "selftest_detection_ratio": ("Planted rows that the newest self-test found", []),
}
Sample = tuple[str, tuple[str, ...], float]


def _samples(result: Report) -> Iterable[Sample]:
    created_at, windows, rows = (
        text.parse_iso_time(result.run.repeated_at or result.run.at),
        result.finding.windows,
        result.finding.rows,
    )
    yield from (("verdict", (word.value,), float(word is result.finding.verdict)) for word in Verdict)
    if created_at is not None:
        yield "timestamp_seconds", (), created_at.timestamp()
    if result.finding.seal.epoch is not None:
        yield "epoch", (), float(result.finding.seal.epoch)
    for state in ("compared", "different", "open", "incomplete"):
        yield "windows", (state,), float(getattr(windows, state))
    for kind in ("compared", "missing", "extra", "changed"):
        yield "rows", (kind,), float(getattr(rows, kind))
    yield from (("cause_rows", (name,), float(cause.rows)) for name, cause in result.finding.causes.items())
    if result.finding.verdict is not Verdict.NOT_COMPARABLE:  # nothing was compared, so no share is known
        yield "late_ratio", (), result.finding.policy.late_share
    yield "within_policy", (), float(result.finding.policy.within)
    if result.cost is not None:
        yield from _cost_samples(result.cost)
    if result.self_test is not None:
        tested = result.self_test.detection_rate
        yield "selftest_passed", (), float(result.self_test.passed)
        if tested.of:
            yield "selftest_detection_ratio", (), tested.hits / tested.of


def _cost_samples(costs: PathCosts) -> Iterable[Sample]:
    """Yield no sample of what is not known: a zero would say that it was free."""
    for name, total in (("streaming", costs.streaming), ("batch", costs.batch)):
        if total.core_seconds is not None:
            yield "path_core_seconds", (name,), total.core_seconds
        if total.written_bytes is not None:
            yield "path_written_bytes", (name,), float(total.written_bytes)

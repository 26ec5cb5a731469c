"""Report files: `<reports>/<pipeline>/<run id>.{html,json,csv,parquet}`, `latest.html`; each is replaced atomically.

A report without a row in the history is one of a run that was killed in between: it is not listed. In plain text, a
report is Markdown for a pull request, whose tables stay short, its differences are a CSV sheet, and its figures are
metrics of Prometheus: one sample a figure, with labels of a bounded number.

Source: Prometheus documentation, exposition formats, and its naming conventions (base units, `_total` for counters).
"""

import fcntl
import io
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from cutover import files
from cutover.clock import Probe, silent
from cutover.definition.loading.key_text import format_columns, make_cells
from cutover.errors import DefinitionError, LakeError
from cutover.events import log
from cutover.output.cells import write_rows
from cutover.reconcile.advisor import advice_text
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.report import page
from cutover.reconcile.result import lateness_text, text
from cutover.reconcile.result.finding import Difference, Verdict
from cutover.reconcile.result.parts import list_uncounted
from cutover.reconcile.result.report import PathCosts, Report, describe_cost_lines
from cutover.reconcile.result.text import describe_equal_within, describe_readings
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings

_TEMPLATES = Path(__file__).parent / "templates" / "forms"
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
            cost=describe_cost_lines(result.cost),
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


_ENDINGS = (".html", ".csv", ".json", ".parquet")
LOCK = ".lock"
_READABLE = 0o644  # also for readers who run nothing
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")


def make_draft_path(settings: Settings, pipeline: str) -> Path:
    """Return where a run may write a Parquet before its report has a name; swept away if the run is killed."""
    name = f".differences.parquet.{os.getpid()}.{uuid.uuid4().hex}.tmp"
    return settings.reports_dir / _check_name(pipeline) / name


def write_report(settings: Settings, report: Report, *, table: Path | None = None, probe: Probe = silent) -> Path:
    """Write the report of one comparison and return the path of its page.

    The page is rendered before anything is written. What killed runs left half-written in the folder is swept away.

    Args:
        settings: Where the reports are.
        report: The report; where it names a Parquet, `table` becomes that.
        table: A Parquet in the same folder, which is moved.
        probe: Called at `report.rendered`.

    Raises:
        DefinitionError: The pipeline's name or the run's id cannot be the name of a file.
        LakeError: The disk is full, or the folder cannot be written; nothing of the report is left.
    """
    folder = settings.reports_dir / _check_name(report.finding.pipeline)
    _check_name(report.run.run_id)
    html = page.render_page(report)
    probe("report.rendered", -1 if report.finding.seal.epoch is None else report.finding.seal.epoch)
    path = folder / f"{report.run.run_id}.html"
    new = [path.with_suffix(ending) for ending in _ENDINGS if not path.with_suffix(ending).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.delete_temporary_files(folder)
        _replace(path.with_suffix(".json"), json.dumps(report.to_json(), indent=1, sort_keys=True) + "\n")
        if report.finding.differences:
            _replace(path.with_suffix(".csv"), format_csv(report))
        if table is not None and report.run.parquet is not None:
            table.chmod(_READABLE)
            table.replace(path.with_suffix(".parquet"))
        _replace(path, html)
    except OSError as error:
        for part in new:
            part.unlink(missing_ok=True)
        msg = f"Reports `{folder}`: expected a folder that can be written, got: {error.strerror or error}."
        hint = "\nHint: no part of the report is left; reconcile again once there is room."
        raise LakeError(msg + hint, runbook="DiskHeadroomLow") from error
    return path


def remove_reports(settings: Settings, pipeline: str, run_ids: Collection[str]) -> None:
    """Remove reports of runs that were not recorded after all."""
    for run_id in run_ids:
        for ending in _ENDINGS:
            (settings.reports_dir / _check_name(pipeline) / f"{_check_name(run_id)}{ending}").unlink(missing_ok=True)


def show_latest(settings: Settings, pipeline: str, newest: Callable[[], RecordedComparison | None]) -> None:
    """Make `latest.html` the page of the current comparison of a pipeline.

    Several runs may end at once: each asks the history while it holds the folder's lock, so none goes back. The
    verdicts are recorded before, so a page that cannot be written is a warning.
    """
    folder = settings.reports_dir / _check_name(pipeline)
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            comparison = newest()
            path = None if comparison is None else folder / f"{_check_name(comparison.run_id)}.html"
            if path is not None and path.is_file():
                _replace(folder / "latest.html", path.read_text(encoding="utf-8"))
    except OSError as error:
        log.warning("latest_not_shown", pipeline=pipeline, error=str(error))


def list_pages(settings: Settings, recorded_comparisons: Iterable[RecordedComparison]) -> list[Path]:
    """Return the pages that still exist, in the order given."""
    paths = (
        settings.reports_dir / recorded_comparison.report
        for recorded_comparison in recorded_comparisons
        if recorded_comparison.report is not None
    )
    return [path for path in paths if path.is_file()]


def read_report(settings: Settings, pipeline: str, run_id: str) -> Report:
    """Read a report's JSON by the id of its run.

    Raises:
        DefinitionError: There is none of this name.
    """
    path = settings.reports_dir / _check_name(pipeline) / f"{_check_name(run_id)}.json"
    try:
        return Report.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        msg = f"Report `{run_id}` of `{pipeline}`: expected a file that can be read, got: {error}."
        raise DefinitionError(msg) from None


def copy_table(settings: Settings, result: Report, to: Path) -> int:
    """Copy the Parquet of a report and return how many rows it has.

    Raises:
        DefinitionError: The report has none, or the copy cannot be written.
    """
    table = None if result.run.parquet is None else settings.reports_dir / result.run.parquet
    if table is None or not table.is_file():
        finding = result.finding
        msg = (
            f"Report `{result.run.run_id}` of `{finding.pipeline}` ({finding.verdict}): expected a Parquet of all rows"
        )
        hint = f"\nHint: `cutover reconcile {finding.pipeline}` writes one where it compares."
        raise DefinitionError(msg + " that differ, found none." + hint)
    try:
        shutil.copyfile(table, to)
    except OSError as error:
        msg = f"File `{to}`: expected a place to write to, got: {error.strerror or error}."
        raise DefinitionError(msg) from None
    from pyarrow import parquet  # noqa: PLC0415 -- half a second that other commands need not pay

    return int(parquet.read_metadata(to).num_rows)


def _check_name(name: str) -> str:
    if not _NAME.match(name):
        msg = f"Report: expected a pipeline and a run id of letters, digits, `_`, `.` and `-`, got {name!r}."
        raise DefinitionError(msg)
    return name


def _replace(path: Path, text: str) -> None:
    files.write_atomically(path, text, mode=_READABLE, durable=True)

"""`cutover history` and `cutover report`: recorded comparisons, and their reports.

The history is a trend, two comparisons against each other, or one window through all of them. Reports are listed,
printed in other forms, and served to a browser on this machine: on loopback, with the files of the reports folder, and
nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from cutover.cli.definitions import find_definitions, load_command_definition
from cutover.definition.loading.key_text import format_columns
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.windows.window_fn import parse_range_end
from cutover.errors import DefinitionError, LakeError
from cutover.output.console import Line, Output, Verbatim, encode_json, make_table
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.audit import noise
from cutover.reconcile.cli.reconcile import make_address
from cutover.reconcile.report import files, page
from cutover.reconcile.result.codec import encode_tree
from cutover.reconcile.result.finding import Difference, Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import count_noun, format_number, share, when
from cutover.reconcile.verdict import decision, records
from cutover.reconcile.verdict import history as comparisons
from cutover.reconcile.verdict.records import RecordedComparison, RunChanges, WindowState, compare_runs, window_state
from cutover.settings import Settings, load_settings
from cutover.timestamps import to_micros

HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files below a folder, links followed nowhere, folders not listed; nothing on the terminal."""

    def send_head(self) -> Any:
        """Serve a file that lies inside the folder; anything else is not found."""
        root, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        if not path.is_file() or path.name.startswith(".") or not path.resolve().is_relative_to(root):
            self.send_error(404)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """Forbid other scripts than the report's own, and requests elsewhere."""
        self.send_header("Content-Security-Policy", page.make_report_policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Say nothing."""


@contextmanager
def open_server(folder: Path, port: int) -> Iterator[ThreadingHTTPServer]:
    """Yield a server of a folder on loopback; `serve_forever` runs it.

    Args:
        folder: The reports.
        port: 0: any that is free.

    Raises:
        OSError: The port is in use.
    """
    with ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(folder))) as server:
        yield server


class ReportForm(StrEnum):
    """Form in which a report is printed."""

    ADDRESS = "address"
    MARKDOWN = "markdown"
    JSON = "json"
    PROMETHEUS = "prometheus"


def report(
    pipeline: Annotated[str | None, typer.Argument(help="Name of a pipeline; none: all.")] = None,
    *,
    list_all: Annotated[bool, typer.Option("--all", help="List every report, not the newest alone.")] = False,
    form: Annotated[
        ReportForm, typer.Option("--format", help="What is printed of the newest report.")
    ] = ReportForm.ADDRESS,
    differences: Annotated[
        Path | None, typer.Option("--differences", help="Copy every row that differs into this Parquet file.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the reports on 127.0.0.1 until it is stopped.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of --serve; 0: any that is free.")] = 0,
) -> Iterator[Output]:
    """Print the address of the newest report of each pipeline, or what it says, or serve all of them."""
    settings = load_settings()
    if serve:
        yield from _serve(settings, port)
        return
    definitions = (
        find_definitions(settings) if pipeline is None else {pipeline: load_command_definition(settings, pipeline)}
    )
    if differences is not None:
        yield _copy_differences(settings, definitions, differences)
    elif form is ReportForm.ADDRESS:
        yield from _list_addresses(settings, definitions, list_all=list_all)
    else:
        yield _output_newest(settings, definitions, form)


def _output_newest(settings: Settings, definitions: dict[str, Pipeline], form: ReportForm) -> Output:
    newest_reports = [
        report
        for name in sorted(definitions)
        if (report := _read_newest(PipelineLake(settings, definitions[name]))) is not None
    ]
    if not newest_reports:
        _reject_missing(settings, definitions)
    documents = [report.to_json() for report in newest_reports]
    return Output(document=documents, lines=[Verbatim(_format(newest_reports, form))])


def _format(reports: list[Report], form: ReportForm) -> str:
    if form is ReportForm.PROMETHEUS:
        return files.render_prometheus(reports)
    if form is ReportForm.MARKDOWN:
        return "\n".join(map(files.render_markdown, reports))
    return "".join(encode_json(report.to_json()) + "\n" for report in reports)


def _copy_differences(settings: Settings, definitions: dict[str, Pipeline], to: Path) -> Output:
    """Copy the Parquet of the newest report of the one pipeline that is named."""
    if len(definitions) != 1:
        msg = f"`--differences`: expected the name of one pipeline, got {len(definitions)}."
        name = min(definitions, default="P")
        raise DefinitionError(msg + f"\nHint: `cutover report {name} --differences {to}`.")
    (name, pipeline), *_ = definitions.items()
    report = _read_newest(PipelineLake(settings, pipeline))
    if report is None:
        _reject_missing(settings, definitions)
    rows = files.copy_table(settings, report, to)
    text = (
        f"{count_noun(rows, 'differing row')} of `{name}` in {to}. DuckDB, pandas and Spark read it (docs/report.md)."
    )
    return Output(document={"pipeline": name, "file": str(to), "rows": rows}, lines=[text])


def _read_newest(lake: PipelineLake) -> Report | None:
    """Return the report of the current comparison of a pipeline; None if there is none."""
    for comparison in comparisons.list_current_first(lake)[:1]:
        return files.read_report(lake.settings, lake.name, comparison.run_id)
    return None


def _list_addresses(settings: Settings, definitions: dict[str, Pipeline], *, list_all: bool) -> Iterator[Output]:
    """Yield the addresses of reports, newest first."""
    paths = []
    for name in sorted(definitions):
        pages = files.list_pages(settings, comparisons.list_current_first(PipelineLake(settings, definitions[name])))
        paths += pages if list_all else pages[:1]
    if not paths:
        _reject_missing(settings, definitions)
    for path in paths:
        address = make_address(settings, path.relative_to(settings.reports_dir).as_posix())
        yield Output(document={"report": address}, lines=[address])


def _reject_missing(settings: Settings, definitions: dict[str, Pipeline]) -> NoReturn:
    names = ", ".join(sorted(definitions)) or "no pipeline"
    msg = f"Reports of {names}: expected one in {settings.reports_dir}, found none."
    hint = f"`cutover reconcile {min(definitions)}` makes one" if definitions else "`cutover init` writes a definition"
    raise DefinitionError(msg + f"\nHint: {hint}.")


def _serve(settings: Settings, port: int) -> Iterator[Output]:
    try:
        with open_server(settings.reports_dir, port) as running:
            root = f"http://{HOST}:{running.server_port}"
            pages = sorted(
                page.relative_to(settings.reports_dir).as_posix() for page in settings.reports_dir.glob("*/latest.html")
            )
            addresses = [f"{root}/{page}" for page in pages]
            serving = f"Serving {settings.reports_dir} on {HOST}:{running.server_port}; Ctrl-C ends it."
            yield Output(document={"reports": addresses}, lines=[*addresses, serving])
            running.serve_forever()
    except OSError as error:
        msg = f"`--port`: expected a free port, {port} cannot be had: {error.strerror}."
        raise DefinitionError(msg) from None


_CELLS_SHOWN = 10


def history(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    limit: Annotated[int, typer.Option("--last", min=1, help="How many comparisons.")] = 20,
    changes: Annotated[
        bool, typer.Option("--changes", help="What the newest has that the one before had not.")
    ] = False,
    older_id: Annotated[str | None, typer.Option("--before", help="Run id (or how it begins) to compare from.")] = None,
    newer_id: Annotated[str | None, typer.Option("--after", help="Run id to compare to; else the newest.")] = None,
    window: Annotated[str | None, typer.Option("--window", help="Follow one window, by its start.")] = None,
) -> Output:
    """Show past comparisons, what changed between two, or when a window last agreed: 0 shown, 2 nothing to show."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    lake = PipelineLake(settings, definition)
    lines = _lines(lake)
    if window is not None:
        start = parse_range_end(window, definition.window, of="`--window`")
        window_rows = _follow(lake, lines, to_micros(start))
        return Output(document=window_rows, lines=_list_window_lines(definition, window, window_rows))
    if changes or older_id or newer_id:
        run_changes = _compare(lake, lines, older_id, newer_id)
        return Output(document=encode_tree(run_changes), lines=_list_change_lines(run_changes))
    rows = [_row(line) for line in lines[-limit:]]
    return Output(document=rows, lines=_list_trend_lines(lake, rows, len(lines)))


def _lines(lake: PipelineLake) -> tuple[RecordedComparison, ...]:
    """Return the comparisons under the definition in force in the order in which they speak, the newest last."""
    recorded_comparisons, version = comparisons.read_current_lines(lake)
    if not recorded_comparisons:
        msg = f"History of `{lake.name}`: expected a comparison under the definition in force, found none."
        raise DefinitionError(msg + f"\nHint: `cutover reconcile {lake.name}` makes one.")
    return records.sort_by_position(recorded_comparisons, version)


def _row(line: RecordedComparison) -> dict[str, Any]:
    """Return one comparison as the trend shows it."""
    result = line.result
    rows, policy = result.get("rows", {}), result.get("policy", {})
    return {
        "run_id": line.run_id,
        "at": _iso(line.first_recorded),
        "last": _iso(line.last_recorded),
        "times": line.times,
        "epoch": line.epoch if line.has_cut else None,
        "whole": line.covers_all_windows,
        "verdict": line.verdict.value,
        "within": policy.get("within", line.exit_code == 0),
        "windows": result.get("windows", {}).get("compared", 0),
        "rows": rows.get("compared", 0),
        "different": sum(rows.get(name, 0) for name in ("missing", "extra", "changed")),
        "unexplained": records.count_unexplained(line),
        "late_share": policy.get("late_share", 0.0),
        "sentence": result.get("sentence", ""),
    }


def _compare(
    lake: PipelineLake,
    lines: Sequence[RecordedComparison],
    older_id: str | None,
    newer_id: str | None,
) -> RunChanges:
    pipeline = lake.pipeline
    comparable = [line for line in lines if line.is_comparable]
    newer = _find(comparable, newer_id, pipeline.name) if newer_id else comparable[-1] if comparable else None
    older = _find(comparable, older_id, pipeline.name) if older_id else _before(comparable, newer)
    if newer is None or older is None:
        msg = f"History of `{pipeline.name}`: expected two comparisons that could compare, found {len(comparable)}."
        raise DefinitionError(msg + f"\nHint: `cutover reconcile {pipeline.name}` makes another, of a newer cut.")
    return compare_runs(*(files.read_report(lake.settings, pipeline.name, line.run_id) for line in (older, newer)))


def _before(lines: Sequence[RecordedComparison], line: RecordedComparison | None) -> RecordedComparison | None:
    at = lines.index(line) if line is not None else 0
    return lines[at - 1] if at else None


def _find(lines: Sequence[RecordedComparison], run_id: str, name: str) -> RecordedComparison:
    matches = [line for line in lines if line.run_id.startswith(run_id)]
    if len(matches) != 1:
        msg = f"Run `{run_id[:80]}`: expected the id of one comparison that could compare, or how it alone begins, "
        raise DefinitionError(
            msg + f"got {count_noun(len(matches), 'run')}.\nHint: `cutover history {name}` lists them."
        )
    return matches[0]


def _follow(lake: PipelineLake, lines: Sequence[RecordedComparison], start: int) -> list[dict[str, Any]]:
    """Return what each comparison says of a window, in order."""
    return [
        {
            "run_id": line.run_id,
            "at": _iso(line.first_recorded),
            "epoch": line.epoch if line.has_cut else None,
            "state": window_state(line, _load(lake, line), start).value,
        }
        for line in lines
    ]


def _load(lake: PipelineLake, line: RecordedComparison) -> Report | None:
    try:
        return files.read_report(lake.settings, lake.name, line.run_id)
    except DefinitionError:
        return None  # reports are files that people may clean up; the line stays


def _list_trend_lines(lake: PipelineLake, rows: Sequence[Mapping[str, Any]], total: int) -> Iterator[Line]:
    columns = ("at (UTC)", "epoch", "windows", "rows differ", "unexplained", "late share", "verdict", "run")
    yield make_table(columns, map(_make_trend_cells, rows))
    title = f"{count_noun(total, 'comparison')}" + ("" if total == len(rows) else f", the newest {len(rows)} shown")
    yield f"{lake.name}, {title}: {count_outcomes(rows)}. Newest: {rows[-1]['sentence']}"
    if sum(map(_is_comparable, rows)) > 1:
        yield f"Next: `cutover history {lake.name} --changes` compares the newest two."
    yield from _list_noise_lines(lake)


def count_outcomes(rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe how many comparisons had each outcome: `2 consistent, 1 explained beyond policy`.

    Args:
        rows: As the trend shows them; their `verdict` and `within` count.
    """
    outcomes = Counter((Verdict(row["verdict"]), bool(row["within"])) for row in rows)
    words = Counter[str]()
    for verdict, within in sorted(outcomes, key=lambda outcome: (list(Verdict).index(outcome[0]), not outcome[1])):
        words[decision.find_style(verdict, within=within).word.lower().replace(",", "")] += outcomes[verdict, within]
    return ", ".join(f"{count:,} {word}" for word, count in words.items())


def _make_trend_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    epoch = "none" if row["epoch"] is None else row["epoch"]
    figures = ["none"] * 4
    if _is_comparable(row):
        figures = [
            *(format_number(row[name]) for name in ("windows", "different", "unexplained")),
            share(row["late_share"]),
        ]
    verdict = row["verdict"] + (", beyond policy" if _is_beyond_policy(row) else "")
    verdict += "" if row["whole"] else " (a range)"
    return when(row["at"]), epoch, *figures, verdict, row["run_id"]


def _is_beyond_policy(row: Mapping[str, Any]) -> bool:
    return row["verdict"] in {Verdict.EXPLAINED, Verdict.ACCEPTED} and not row["within"]


def _is_comparable(row: Mapping[str, Any]) -> bool:
    return bool(row["verdict"] != Verdict.NOT_COMPARABLE)


def _list_noise_lines(lake: PipelineLake) -> Iterator[str]:
    """Yield the result of the newest measurement of noise; its JSON is that of `cutover noise`."""
    measured = None
    with suppress(LakeError):  # a lake of an older release has no such table; comparisons are shown all the same
        measured = noise.find_newest_noise(lake)
    if measured is not None:
        yield f"{when(measured.at)}: {noise.describe_noise(measured)}"


def _list_change_lines(run_changes: RunChanges) -> Iterator[Line]:
    if run_changes.changes:
        yield make_table(
            ("what", "window", "key", "measure", "before", "now"),
            (
                (
                    change_name,
                    when(cell.window_start),
                    format_columns(cell.key),
                    cell.measure,
                    _cell(earlier),
                    _cell(later),
                )
                for change_name, earlier, later in _list_changes(run_changes)
                for cell in filter(None, (later or earlier,))
            ),
        )
    counts_text = (
        f"{len(run_changes.new)} new, {len(run_changes.gone)} gone, {len(run_changes.other_cause)} with another cause"
    )
    counts_text += f", {len(run_changes.other_amount)} with another amount, {run_changes.same} as they were"
    part = (
        "" if run_changes.is_whole else " A report lists not all of its cells: what is new or gone may be in the rest."
    )
    yield f"From {run_changes.before} to {run_changes.after}: {counts_text} (cells).{part}"


def _list_changes(run_changes: RunChanges) -> list[tuple[str, Difference | None, Difference | None]]:
    """Return the first changes of each sort: what it is, before, now."""
    pairs: list[tuple[str, Sequence[tuple[Difference | None, Difference | None]]]] = [
        ("new", [(None, cell) for cell in run_changes.new]),
        ("other cause", [(change.before, change.after) for change in run_changes.other_cause]),
        ("other amount", [(change.before, change.after) for change in run_changes.other_amount]),
        ("gone", [(cell, None) for cell in run_changes.gone]),
    ]
    return [(change_name, *pair) for change_name, of in pairs for pair in of[:_CELLS_SHOWN]]


def _cell(difference: Difference | None) -> str:
    if difference is None:
        return ""
    return f"{format_number(difference.streaming)} for {format_number(difference.batch)}, {difference.cause}"


def _list_window_lines(pipeline: Pipeline, window: str, window_rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    yield make_table(
        ("at (UTC)", "epoch", "state", "run"),
        (
            (when(row["at"]), "none" if row["epoch"] is None else row["epoch"], row["state"], row["run_id"])
            for row in window_rows
        ),
    )
    last_equal = next((row for row in reversed(window_rows) if row["state"] == WindowState.EQUAL), None)
    equality_text = (
        "never found equal"
        if last_equal is None
        else f"last equal at epoch {last_equal['epoch']}, {when(last_equal['at'])}"
    )
    yield f"Window {window} of {pipeline.name}: {equality_text}. Now: {window_rows[-1]['state']}."


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


COMMANDS = {"history": history, "report": report}

"""`cutover reconcile`, `explain` and `diff`: the sentence of a comparison, its causes, and where its report is."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.counts import count_clause
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import format_argument, format_columns, parse_key
from cutover.definition.windows.window_fn import parse_range_end
from cutover.errors import DefinitionError
from cutover.lake.control.versions import select_stream_version
from cutover.log.topic_partitions import format_partition_number
from cutover.output.console import Line, Output, make_table, styled
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.explain import Explanation, Measured, explain_cell
from cutover.reconcile.comparison.diff import Budget
from cutover.reconcile.external import request
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.report import page
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Events, RuleState, Verdict
from cutover.reconcile.result.lateness_text import (
    describe_early,
    describe_late_amounts,
    describe_open,
    describe_settlement,
)
from cutover.reconcile.result.parts import JobTable, UsersTables
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import (
    LONGEST_VALUE,
    count_noun,
    counts,
    cut_text,
    describe_equal_within,
    describe_readings,
    format_number,
    format_signed,
    share,
    when,
)
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings, load_settings
from cutover.sources.csv_dialect import parse_dialect
from cutover.timestamps import parse_duration, to_micros

Name = Annotated[str, typer.Argument(help="Name of a pipeline.")]


def reconcile(
    pipeline: Name,
    *,
    start: Annotated[str | None, typer.Option("--from", help="First window start: a date, or a time.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Window starts before this one.")] = None,
    cut: Annotated[int | None, typer.Option("--cut", min=0, help="Epoch whose batch run is compared.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="Of the stream; else the one that serves.")] = None,
) -> Output:
    """Compare streaming and batch at one cut: 0 agree or within policy, 1 differ, 2 not comparable."""
    settings = select_stream_version(load_settings(), version)
    definition = catalogue.get(settings, pipeline)
    lower, upper = (
        None if text is None else parse_range_end(text, definition.window, of=f"`{option}`")
        for option, text in (("--from", start), ("--to", end))
    )
    result = run_reconciliation(PipelineLake(settings, definition), start=lower, end=upper, epoch=cut)
    path = result.run.report_path
    return _output(result, None if path is None else make_address(settings, path))


def explain(
    pipeline: Name,
    window: Annotated[str, typer.Argument(help="Start of a window, such as 2013-02-08T14:00:00Z.")],
    key: Annotated[
        str, typer.Argument(help="The key in any form that is shown: JFK,UA, or origin=JFK, carrier=null, or JSON.")
    ] = "",
    *,
    version: Annotated[int | None, typer.Option("--version", help="Of the stream; else the one that serves.")] = None,
) -> Output:
    """Show one window and key: both values, the difference, and the rows behind it by offset."""
    settings = select_stream_version(load_settings(), version)
    definition = load_command_definition(settings, pipeline)
    at = parse_range_end(window, definition.window, of="WINDOW")
    explained = explain_cell(PipelineLake(settings, definition), at, parse_key(key, definition.key))
    return Output(document=explained.to_json(), lines=list_explanation_lines(explained))


def diff(  # noqa: PLR0913 -- the options of a command line
    left: Annotated[
        str,
        typer.Argument(
            help="Expected: a Delta (also table@v7) or Iceberg folder; Parquet or CSV: a file, folder or glob;"
            " postgresql://user@host/database#schema.table, iceberg://catalog/table, duckdb:///file#table,"
            " kafka://broker:9092/topic."
        ),
    ],
    right: Annotated[str, typer.Argument(help="Actual: the same.")],
    *,
    key: Annotated[str, typer.Option("--key", help="Key columns, such as origin,carrier.")],
    window: Annotated[
        str | None, typer.Option("--window-column", help="A key column that rows are grouped by.")
    ] = None,
    tolerance: Annotated[
        list[str] | None, typer.Option("--tolerance", help="amount=0.01, amount=1% or at='5 seconds'; may repeat.")
    ] = None,
    rename: Annotated[list[str] | None, typer.Option("--map", help="Another name on the actual side: a=b.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Columns that are not compared.")] = None,
    mask: Annotated[list[str] | None, typer.Option("--mask", help="Columns whose values are shown nowhere.")] = None,
    normalize: Annotated[
        list[str] | None, typer.Option("--normalize", help="Texts in normal form: NFC, blanks folded.")
    ] = None,
    ignore_case: Annotated[list[str] | None, typer.Option("--ignore-case", help="Texts without case.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Type of a column of texts, such as zip=text or x=double.")
    ] = None,
    csv: Annotated[
        list[str] | None, typer.Option("--csv", help="Dialect: delimiter=;, quote=', header=no, encoding=, null=NA.")
    ] = None,
    csv_left: Annotated[list[str] | None, typer.Option("--csv-left", help="The same, of LEFT alone.")] = None,
    csv_right: Annotated[list[str] | None, typer.Option("--csv-right", help="The same, of RIGHT alone.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="First window to read; needs --window-column.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Windows before this one.")] = None,
    min_age: Annotated[
        str | None, typer.Option("--min-age", help="Leave younger windows out: '10 minutes'; needs --window-column.")
    ] = None,
    stop_after: Annotated[int | None, typer.Option("--stop-after", min=1, help="End at this number of rows.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="End after so long.")] = None,
    report_file: Annotated[
        Path | None, typer.Option("--report", help="Write the page here (.json: the object).")
    ] = None,
) -> Output:
    """Compare any two tables (files, Iceberg, databases) by key: 0 equal, 1 different, 2 cannot be compared."""
    both = parse_dialect(csv or [], "--csv")
    diff_request = DiffRequest(
        expected=left,
        actual=right,
        key=request.parse_names(key, "--key"),
        window=window,
        tolerances=request.parse_tolerances(tolerance or []),
        names=request.parse_renames(rename or []),
        excluded=request.parse_name_lists(exclude or [], "--exclude"),
        masked=request.parse_name_lists(mask or [], "--mask"),
        types=request.parse_types(types or []),
        dialects=(
            parse_dialect(csv_left or [], "--csv-left", both),
            parse_dialect(csv_right or [], "--csv-right", both),
        ),
        normalized=request.parse_name_lists(normalize or [], "--normalize"),
        caseless=request.parse_name_lists(ignore_case or [], "--ignore-case"),
        times=(
            request.parse_window_bound(start, "--from", window),
            request.parse_window_bound(end, "--to", window),
        ),
        cutoff=None if min_age is None else _now() - parse_duration(min_age, of="--min-age"),
        budget=Budget(rows=stop_after, seconds=seconds),
    )
    result = compare_tables(diff_request, load_settings())
    if report_file is not None:
        _write(report_file, result)
    return _output(result, None if report_file is None else report_file.resolve().as_uri())


def _output(result: Report, location: str | None) -> Output:
    lines = list_comparison_lines(result, location)
    return Output(document=result.to_json(), lines=lines, exit_code=result.finding.exit_code)


def _now() -> int:
    return to_micros(SystemClock().now())


def _write(path: Path, result: Report) -> None:
    text = json.dumps(result.to_json(), indent=1) if path.suffix == ".json" else page.render_page(result)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"`--report`: expected a file that can be written, got `{path}` ({error.strerror})."
        raise DefinitionError(msg) from None


COMMANDS = {"reconcile": reconcile, "explain": explain, "diff": diff}


_STYLES = {Verdict.CONSISTENT: "green", Verdict.EXPLAINED: "green", Verdict.DIVERGED: "red"}
_CELLS_SHOWN = 10
_SEGMENTS_SHOWN = 3


def make_address(settings: Settings, relative: str) -> str:
    """Return where a report can be opened: under `report_base_url`, else as a file."""
    if settings.report_base_url:
        return f"{settings.report_base_url.rstrip('/')}/{relative}"
    return (settings.reports_dir / relative).as_uri()


def list_comparison_lines(result: Report, location: str | None) -> Iterator[Line]:
    """Yield a comparison: verdict, causes, first differences, notes, address of the report."""
    finding = result.finding
    is_beyond_policy = finding.exit_code and finding.verdict is Verdict.EXPLAINED
    style = "yellow" if is_beyond_policy else _STYLES.get(finding.verdict, "yellow")
    yield styled((str(finding.verdict), f"bold {style}"), "  ", finding.sentence)
    yield from _list_standing(result)
    if finding.loss:
        yield f"lost  {finding.loss}"
    if finding.kind == "pipeline" and finding.seal.holds:
        yield from _list_pipeline_lines(result)
    yield from (_tabulate_job_cells(job) for job in finding.jobs if job.cells)
    if finding.differences:
        yield _tabulate_cells(result)
    for segment in finding.segments[:_SEGMENTS_SHOWN]:
        of = f"{format_number(segment.different)} of {count_noun(segment.rows, 'row')} of it differ"
        of += f", {format_number(segment.lift)} times its share"
        yield f"over-represented  {format_columns({segment.column: segment.value})}: {of}"
    yield from _prefix("policy", finding.policy.reasons if finding.seal.holds else ())
    yield from _list_accepted(result)
    yield from _prefix("seal", (breach.message for breach in finding.seal.breaches[1:]))
    yield from _prefix("read", describe_readings(finding.readings))
    yield from _prefix("within", describe_equal_within(finding.equal_within))
    yield from _prefix("note", finding.notes)
    if finding.runbook:
        yield f"runbook  docs/runbooks/{finding.runbook}.md"
    if location:
        yield f"report  {location}"


def _prefix(head: str, texts: Iterable[str]) -> Iterator[str]:
    return (f"{head}  {text}" for text in texts)


def _list_accepted(result: Report) -> Iterator[str]:
    for rule in result.finding.accepted:
        if rule.state is RuleState.IN_FORCE and rule.rows:
            line = f"{count_noun(rule.rows, 'row')} by rule {rule.rule} of {rule.owner}, until {when(rule.expires)}"
            yield f"accepted  {line}: {rule.reason}"


def _list_standing(result: Report) -> Iterator[str]:
    """Yield the cut that the comparison covers, if it is not current, and that it is a repeat."""
    if result.run.scope_note:
        yield f"past  {result.run.scope_note}"
    if result.run.repeats:
        times = "once" if result.run.repeats == 1 else f"{result.run.repeats:,} times"
        yield f"repeat  the same result {times} before, first at {when(result.run.at)}"


def _list_pipeline_lines(result: Report) -> Iterator[Line]:
    finding, windows = result.finding, result.finding.windows
    yield (
        f"epoch {finding.seal.epoch}, {count_noun(windows.compared, 'window')} compared, {windows.different:,} differ,"
        f" {windows.open:,} open, {windows.incomplete:,} incomplete{counts(windows.incomplete_because)};"
        f" late share {share(finding.policy.late_share)}"
    )
    for job in finding.jobs:
        yield f"{job.side} job  {describe_job(job)}"
    if finding.users_tables is not None:
        yield f"tables  {describe_users_tables(finding.users_tables)}"
    if result.settlement is not None:
        yield f"settled  {describe_settlement(result.settlement, finding.own_stream)}"
    if result.early is not None and result.early.points:
        yield f"early  {describe_early(result.early)}"
    if finding.open_answers is not None and finding.open_answers.looked:
        yield f"open  {describe_open(finding.open_answers)}"
    yield f"records  {describe_records(finding.events)}"
    late_amounts = describe_late_amounts(finding.waterfall)
    if late_amounts is not None:
        yield f"late  {late_amounts}"
    yield make_table(
        ("cause", "rows", "records behind them"),
        (
            (name, format_number(cause.rows), format_number(cause.events))
            for name, cause in finding.causes.items()
            if cause.rows or cause.events or name == UNEXPLAINED  # a zero reads as if there were no such records
        ),
        right=("rows", "records behind them"),
    )


def describe_users_tables(tables: UsersTables) -> str:
    """Return in how many rows the tables of both paths differ as users see them, and by what."""
    compared = count_noun(tables.rows, "row")
    if not tables.different:
        return f"as users see them, both agree in all {compared}"
    causes = ", ".join(f"{name} {count:,}" for name, count in tables.causes.items())
    return f"as users see them, both differ in {tables.different:,} of {compared}: {causes}"


def describe_job(job: JobTable) -> str:
    """Return what the table of a team's job shows, and at which state it was read."""
    version = "" if job.version is None else f"version {job.version} of its table"
    place = version if job.batch is None else f"batch {job.batch} ({version})"
    level = f"{job.level} at {place}" if place else job.level
    if job.position is not None:
        level += f", up to {job.position}"
    if job.rules:
        level += f", with its own rules ({job.rules}), which make {count_noun(job.by_rules, 'row')} differ"
    if job.not_judged:
        level += f", {count_noun(job.not_judged, 'row')} not judged"
    if job.divided:
        level += f", {count_noun(job.divided, 'session')} in several rows, which are merged"
    if not job.different:
        return f"{level}: all {count_noun(job.rows, 'row')} are what the definition says"
    foreign = f"; others wrote version {', '.join(job.foreign_versions)}" if job.foreign_versions else ""
    return f"{level}: {job.different:,} of {count_noun(job.rows, 'row')} differ{foreign}"


def _tabulate_job_cells(job: JobTable) -> Table:
    """Return the first cells in which the table of a team's job is not what the definition says."""
    return make_table(
        ("window", "key", "measure", "job", "definition"),
        (
            (
                when(cell.window_start),
                format_argument({name: _cut_value(value) for name, value in cell.key.items()}),
                cell.measure,
                format_number(_cut_value(cell.job)),
                format_number(_cut_value(cell.expected)),
            )
            for cell in job.cells[:_CELLS_SHOWN]
        ),
        title=count_clause(job.different, f"row of the {job.side} job", "differs", "differ"),
    )


def describe_records(events: Events) -> str:
    """Return how many records up to the cut counted, and how many of each other class there are."""
    other_classes = ("late", "future", "duplicate", "malformed", "filtered")
    further = "".join(f", {getattr(events, name):,} {name}" for name in other_classes if getattr(events, name))
    return f"{events.accepted:,} counted{further}"


def _tabulate_cells(result: Report) -> Table:
    """Return the first cells that differ, with their cause where a pipeline is compared."""
    is_pipeline = result.finding.kind == "pipeline"
    sides = ("streaming", "batch") if is_pipeline else ("actual", "expected")
    return make_table(
        ("window", "key", "measure", *sides, "difference", *(("cause",) if is_pipeline else ())),
        (
            (
                when(cell.window_start),
                format_argument({name: _cut_value(value) for name, value in cell.key.items()}),
                cell.measure,
                format_number(_cut_value(cell.streaming)),
                format_number(_cut_value(cell.batch)),
                cell.kind if cell.difference is None else format_signed(cell.difference),
                *((cell.cause,) if is_pipeline else ()),
            )
            for cell in result.finding.differences[:_CELLS_SHOWN]
        ),
        title=count_clause(result.finding.differences_total, "cell", "differs", "differ"),
    )


def _cut_value(value: Scalar) -> Scalar:
    return cut_text(value, LONGEST_VALUE) if isinstance(value, str) else value


def list_explanation_lines(explained: Explanation) -> Iterator[Line]:
    """Yield one cell: both values, the difference, its cause, and the rows behind it."""
    head = f"{explained.pipeline}  window {when(explained.window_start)}  key {format_argument(explained.key)}"
    yield f"{head}  epoch {explained.epoch}  {explained.state}"
    yield make_table(
        ("measure", "streaming", "batch", "difference", "cause"),
        (
            (
                value.measure,
                format_number(value.streaming),
                format_number(value.batch),
                _describe_difference(value),
                value.cause or _describe_equal(explained),
            )
            for value in explained.values
        ),
    )
    yield from _prefix("lost", explained.lost)
    yield from _list_row_notes(explained)
    if explained.rows:
        yield make_table(
            ("class", "partition", "offset", "event time", "epoch", "watermark before it", "reason"),
            (
                (
                    row.class_,
                    format_partition_number(row.partition),
                    row.offset,
                    when(row.event_time),
                    row.epoch,
                    when(row.watermark),
                    row.reason,
                )
                for row in explained.rows
            ),
            title="rows that did not count",
        )
    yield from _list_lost_pairs(explained)
    counts_text = ", ".join(f"{item.records:,} in epoch {item.epoch}" for item in explained.counted)
    yield f"rows that counted: {counts_text or 'none'}"
    for session in explained.sessions:
        span = f"{when(session.start)} to {when(session.end)}"
        yield f"session of {session.side}: {span}, {count_noun(session.records, 'row')}"


def _list_lost_pairs(explained: Explanation) -> Iterator[Line]:
    if explained.lost_pairs:
        names = tuple(explained.lost_pairs[0].ids)
        rows = (
            (*(pair.ids[name] for name in names), when(pair.left_time), when(pair.right_time), pair.pairs)
            for pair in explained.lost_pairs
        )
        columns = (*names, "left event time", "right event time", "pairs")
        yield make_table(columns, rows, title="pairs that the stream lacks")


def _describe_difference(value: Measured) -> str:
    if value.cause is None:
        return "none"
    return "not a number" if value.difference is None else format_signed(value.difference)


def _list_row_notes(explained: Explanation) -> Iterator[str]:
    notes = (explained.unproven, explained.unasked, explained.jobs_unread)
    yield from _prefix("note", (text for text in notes if text is not None))
    yield from (f"{job.side} job  {text}" for job in explained.jobs for text in _describe_job_row(job))


def _describe_job_row(job: JobTable) -> Iterator[str]:
    """Yield in which cells of one row a job's table is not what the definition says, for a job that may judge it."""
    if not job.cells:
        yield "no difference in this row" + (", or it was not judged" if job.not_judged else "")
    for cell in job.cells:
        values = (
            f"{format_number(_cut_value(cell.job))}, the definition says {format_number(_cut_value(cell.expected))}"
        )
        yield f"{cell.measure} is {values} ({cell.kind})"


def _describe_equal(explanation: Explanation) -> str:
    """Return what equal values say: where records are lost, both sides may miss the same ones."""
    return "equal, not judged" if explanation.lost or explanation.state.startswith("incomplete") else "equal"

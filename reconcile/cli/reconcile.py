"""`cutover reconcile`, `explain` and `diff`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import parse_key
from cutover.definition.windows.window_fn import parse_range_end
from cutover.durations import parse_duration
from cutover.errors import DefinitionError
from cutover.lake.control.versions import select_stream_version
from cutover.output.console import Output
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.cli import arguments, show
from cutover.reconcile.comparison.diff import Budget
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.report import page
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.settings import load_settings
from cutover.sources.csv_dialect import parse_dialect
from cutover.timestamps import to_micros

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
    return _output(result, None if path is None else show.make_address(settings, path))


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
    return Output(document=explained.to_json(), lines=show.list_explanation_lines(explained))


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
        key=arguments.parse_names(key, "--key"),
        window=window,
        tolerances=arguments.parse_tolerances(tolerance or []),
        names=arguments.parse_renames(rename or []),
        excluded=arguments.parse_name_lists(exclude or [], "--exclude"),
        masked=arguments.parse_name_lists(mask or [], "--mask"),
        types=arguments.parse_types(types or []),
        dialects=(
            parse_dialect(csv_left or [], "--csv-left", both),
            parse_dialect(csv_right or [], "--csv-right", both),
        ),
        normalized=arguments.parse_name_lists(normalize or [], "--normalize"),
        caseless=arguments.parse_name_lists(ignore_case or [], "--ignore-case"),
        times=(
            arguments.parse_window_bound(start, "--from", window),
            arguments.parse_window_bound(end, "--to", window),
        ),
        cutoff=None if min_age is None else _now() - parse_duration(min_age, of="--min-age"),
        budget=Budget(rows=stop_after, seconds=seconds),
    )
    result = compare_tables(diff_request, load_settings())
    if report_file is not None:
        _write(report_file, result)
    return _output(result, None if report_file is None else report_file.resolve().as_uri())


def _output(result: Report, location: str | None) -> Output:
    lines = show.list_comparison_lines(result, location)
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

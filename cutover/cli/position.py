"""Positions of jobs: `cutover position` finds that of a table, `cutover cut` prints one up to which a job reads.

For a checkpoint, the output also describes the streaming query: operators, batches and versions.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.log.kafka import LogClient
from cutover.output.console import Line, Output, make_table, show_spinner
from cutover.positions import landed_copy, landed_names, log_check
from cutover.positions.batch_table import find_topic_report
from cutover.positions.delta_versions import TableVersion, list_table_versions
from cutover.positions.log_check import GroupRequest, find_group_position
from cutover.positions.position import (
    POSITION_VARIABLE,
    TOPIC_NAME,
    Position,
    PositionLevel,
    PositionReport,
    UnknownPosition,
    find_position,
    format_topic_offsets,
    make_job_environment,
)
from cutover.positions.spark_checkpoint import Batch, LateRule, Operator, SparkCheckpoint, read_checkpoint
from cutover.positions.table_position import (
    PostgresTable,
    find_file_position,
    find_row_position,
    find_table_position,
    read_newest_version,
)
from cutover.settings import load_settings
from cutover.sources.addresses import ICEBERG, POSTGRES, parse_table_address
from cutover.sources.compacted_topic import KAFKA
from cutover.sources.iceberg import open_iceberg_address
from cutover.timestamps import format_duration, format_micros, parse_duration, to_micros

SHOWN_BATCHES = 10
"""Newest batches that are printed; `--json` has all of them."""

_RULES = {
    LateRule.WINDOW: "drops the records of windows that end at or before the watermark (none in complete mode)",
    LateRule.ROW: "drops the records whose event time is at or before the watermark",
    LateRule.NEVER: "drops no record: its key has no event time with a watermark, so its state only grows",
    LateRule.UNKNOWN: "may drop late records; by which rule, the checkpoint does not show",
}


def list_query_lines(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> Iterator[Line]:
    """Yield the lines about a query, and a table of its newest batches."""
    first, last = checkpoint.batches[0], checkpoint.batches[-1]
    kept = count_noun(len(checkpoint.batches), "batch")
    yield f"Query {checkpoint.query_id}: {kept} kept, {first.number} to {last.number}."
    for operator in checkpoint.operators:
        delay = "" if operator.watermark_delay is None else f", watermark {format_duration(operator.watermark_delay)}"
        by = f" by {', '.join(operator.columns)}" if operator.columns else ""
        yield f"Operator {operator.id}, {operator.name}{by}{delay}: {_RULES[operator.late_rule]}."
    if not checkpoint.operators:
        yield "The checkpoint holds no state: a query without state drops no record by a watermark."
    shown = checkpoint.batches[-SHOWN_BATCHES:]
    if len(shown) < len(checkpoint.batches):
        yield f"The newest {SHOWN_BATCHES} batches (`--json` has all of them):"
    columns = ("batch", "offsets", "judged by watermark", "planned", "committed", "version")
    yield make_table(columns, (_list_cells(batch, versions) for batch in shown), right=("batch",))
    older = [version.version for version in versions if version.batch is None and not version.is_foreign]
    if older:
        yield f"{count_noun(len(older), 'version')} of the table, up to {older[-1]}, came from older batches."


def _list_cells(batch: Batch, versions: Sequence[TableVersion]) -> tuple[str, ...]:
    own_versions = [version for version in versions if version.batch == batch.number]
    return (
        str(batch.number),
        format_topic_offsets(batch.ends),
        "unknown" if batch.judged_by is None else format_micros(batch.judged_by or None) or "none",
        format_micros(batch.planned_at) or "",
        "yes" if batch.is_committed else "no",
        ", ".join(f"{version.version} ({version.evidence})" for version in own_versions),
    )


def encode_query(checkpoint: SparkCheckpoint, versions: Sequence[TableVersion]) -> dict[str, object]:
    """Return the fields of a query in the JSON object that `--json` prints."""
    return {
        "query_id": checkpoint.query_id,
        "operators": [_encode_operator(operator) for operator in checkpoint.operators],
        "batches": [_encode_batch(batch, versions) for batch in checkpoint.batches],
    }


def _encode_operator(operator: Operator) -> dict[str, object]:
    return {
        "id": operator.id,
        "name": operator.name,
        "columns": operator.columns,
        "watermark_delay_seconds": None if operator.watermark_delay is None else operator.watermark_delay / 1e6,
        "late_rule": operator.late_rule,
    }


def _encode_batch(batch: Batch, versions: Sequence[TableVersion]) -> dict[str, object]:
    return {
        "number": batch.number,
        "ends": {topic: {str(p): offset for p, offset in ends.items()} for topic, ends in batch.ends.items()},
        "planned_at": format_micros(batch.planned_at),
        "judged_by": format_micros(batch.judged_by or None),
        "is_judge_known": batch.judged_by is not None,
        "is_committed": batch.is_committed,
        "versions": [
            {"version": version.version, "evidence": version.evidence, "operation": version.operation}
            for version in versions
            if version.batch == batch.number
        ],
    }


LONGEST_WAIT = "1 hour"


def position(  # noqa: PLR0913, PLR0917 -- each is an option of the command
    checkpoint: Annotated[
        str | None, typer.Argument(help="checkpointLocation of a Spark streaming query: a folder or a URI.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="The table that the job writes. Alone: the position in its newest commit.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="File with a position, in place of a commit.")] = None,
    group: Annotated[str | None, typer.Option(help="Consumer group to which the job commits its offsets.")] = None,
    rows_within: Annotated[
        str | None, typer.Option(help="With --group: how long after its offsets the job commits its rows at most.")
    ] = None,
    landed: Annotated[str | None, typer.Option(help="Folder with a copy of a topic's records.")] = None,
    run: Annotated[str | None, typer.Option(help="START,END of a run that read its topic to the end.")] = None,
    clock_difference: Annotated[
        str, typer.Option(help="With --run: how much the clocks of run and brokers differ at most.")
    ] = "10 seconds",
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic that the job reads, for --group, --landed and --run; repeatable.")
    ] = None,
    check_log: Annotated[
        bool, typer.Option("--check-log", help="Compare the position with the topics in Kafka.")
    ] = False,
) -> Output:
    """Show up to which offsets of its topics a table contains the records, and how much of that is proven.

    Exit code 0: the position is exact or bounded. 2: it is unknown.
    """
    sources = {"CHECKPOINT": checkpoint, "--file": file, "--group": group, "--landed": landed, "--run": run}
    named = [name for name, value in sources.items() if value is not None]
    _check_sources(named, table=table, topic=topic, rows_within=rows_within)
    topics = tuple(dict.fromkeys(topic or ()))
    if checkpoint is not None:
        return _show_query(storage.make_absolute(checkpoint, of="CHECKPOINT"), table, check_log=check_log)
    if group is not None:
        report = _find_by_group(group, topics, rows_within, table)
    elif landed is not None:
        report = _find_landed(storage.make_absolute(landed, of="--landed"), topics, check_log=check_log)
    elif run is not None:
        now = to_micros(SystemClock().now())
        difference = parse_duration(clock_difference, of="--clock-difference")
        times = log_check.parse_run_times(run, clock_difference=difference, now=now)
        report = log_check.find_run_position(LogClient(load_settings()), topics, times)
    elif file is not None:
        place = None if table is None else _locate_table(table)
        report = _check(find_file_position(storage.make_absolute(file, of="--file"), place), check_log=check_log)
    else:
        report = _check(_find_recorded(str(table)), check_log=check_log)
    return _show_report(report)


def _show_report(report: PositionReport) -> Output:
    return Output(document=_encode_report(report), lines=_list_report_lines(report), exit_code=_get_exit_code(report))


def _check_sources(
    named: Sequence[str], *, table: str | None, topic: Sequence[str] | None, rows_within: str | None
) -> None:
    """Reject options that do not belong together.

    Raises:
        DefinitionError: None or several sources are named, or an option that another source needs.
    """
    expected = "CHECKPOINT, --table, --file, --group, --landed or --run"
    if len(named) > 1 or (not named and table is None):
        msg = f"expected one source of a position: {expected}, got {' and '.join(named) or 'none'}."
        raise DefinitionError(msg + "\nHint: docs/positions.md lists which one fits which job.")
    (source,) = named or ("--table",)
    if source in {"--group", "--run"} and not topic:
        msg = f"{source}: expected the topic that the job reads as well: `--topic NAME`."
        raise DefinitionError(msg)
    invalid = next((name for name in topic or () if not TOPIC_NAME.fullmatch(name)), None)
    if invalid is not None:
        msg = f"--topic: expected the name of one topic, got `{invalid[:80]}`; the option may be repeated."
        raise DefinitionError(msg)
    for option, value, owners in (
        ("--topic", topic, {"--group", "--landed", "--run"}),
        ("--rows-within", rows_within, {"--group"}),
        ("--table", table, {"CHECKPOINT", "--file", "--group", "--table"}),
    ):
        if value and source not in owners:
            msg = f"{option}: expected it together with {' or '.join(sorted(owners))}, got {source}."
            raise DefinitionError(msg)


def _show_query(checkpoint: str, table: str | None, *, check_log: bool) -> Output:
    spark_checkpoint = read_checkpoint(checkpoint)
    versions = None if table is None else list_table_versions(_locate_table(table), spark_checkpoint)
    report = PositionReport(
        position=find_position(spark_checkpoint, versions),
        source="its checkpoint",
        # Spark plans a batch with every partition that it knows: another one was not read yet.
        unnamed_are_unread=True,
    )
    report = _check(report, check_log=check_log)
    return Output(
        document={**_encode_report(report), **encode_query(spark_checkpoint, versions or ())},
        lines=_list_all_lines(spark_checkpoint, versions, report),
        exit_code=_get_exit_code(report),
    )


def _list_all_lines(
    spark_checkpoint: SparkCheckpoint, versions: Sequence[TableVersion] | None, report: PositionReport
) -> Iterator[Line]:
    yield from list_query_lines(spark_checkpoint, versions or ())
    yield from _list_report_lines(report)
    if versions is None and isinstance(report.position, Position):
        yield "Next: name its Delta table with `--table` to see which batch wrote which version."


def _find_by_group(group: str, topics: tuple[str, ...], rows_within: str | None, table: str | None) -> PositionReport:
    if rows_within is None:
        msg = "--group: expected `--rows-within` as well: how long after its offsets the job commits its rows at most."
        hint = '`--rows-within "0 seconds"` for a consumer that commits its rows first; for Flink, twice its interval'
        raise DefinitionError(msg + f"\nHint: {hint} of checkpoints.")
    delay = parse_duration(rows_within, of="--rows-within")
    if delay > parse_duration(LONGEST_WAIT, of="--rows-within"):
        msg = f"--rows-within: expected at most {LONGEST_WAIT}, which the command waits, got `{rows_within}`."
        raise DefinitionError(msg)
    with show_spinner(f"Reading group {group}, and the table {rows_within} later"):
        return find_group_position(
            LogClient(load_settings()),
            GroupRequest(group=group, topics=topics, rows_within=delay),
            read_version=lambda: None if table is None else read_newest_version(_locate_table(table)),
            wait=time.sleep,
        )


def _find_landed(folder: str, topics: tuple[str, ...], *, check_log: bool) -> PositionReport:
    copy = landed_copy.read_landed_columns(folder, topics) or landed_names.read_landed_names(folder, topics)
    if copy is None:
        msg = "--landed: expected columns `partition` and `offset`, or files called topic+partition+offset, found"
        raise DefinitionError(msg + f" neither in `{folder}`.")
    if not check_log:
        return landed_copy.find_landed_position(copy)
    client = LogClient(load_settings())
    bounds = log_check.read_topic_bounds(client, tuple({partition.topic for partition in copy.partitions}))
    compared_copy, notes = landed_copy.compare_gaps(client, copy, bounds)
    return log_check.compare_with_log(landed_copy.find_landed_position(compared_copy, notes), bounds)


def _check(report: PositionReport, *, check_log: bool) -> PositionReport:
    """Compare a position with the log if that is asked for."""
    if not check_log or isinstance(report.position, UnknownPosition):
        return report
    client = LogClient(load_settings())
    bounds = log_check.read_topic_bounds(client, tuple(report.position.topics))
    return log_check.tighten_bounds(client, log_check.compare_with_log(report, bounds), bounds)


def _list_report_lines(report: PositionReport) -> Iterator[Line]:
    yield from report.notes
    if isinstance(report.position, UnknownPosition):
        yield f"Position unknown: {report.position.reason}."
        return
    found = report.position
    at = "" if found.table_version is None else f", at version {found.table_version}"
    offsets = format_topic_offsets(found.topics, found.upto)
    yield f"Position by {report.source}: {found.level}, {offsets}{at}. `--json` prints it for programs."


def _encode_report(report: PositionReport) -> dict[str, object]:
    found = report.position
    return {
        "level": found.level,
        "position": found.to_json() if isinstance(found, Position) else None,
        "unknown": found.reason if isinstance(found, UnknownPosition) else None,
        "source": report.source,
        "notes": list(report.notes),
    }


def _get_exit_code(report: PositionReport) -> int:
    return 2 if report.position.level is PositionLevel.UNKNOWN else 0


def _find_recorded(table: str) -> PositionReport:
    """Find the position that the job of a table has recorded, in a server or elsewhere."""
    address = parse_table_address(table)
    if address is not None and address.scheme == KAFKA:
        return find_topic_report(address, load_settings())
    if address is None or address.scheme not in POSTGRES:
        return find_table_position(_locate_table(table))
    if not address.table:
        msg = (
            f"--table `{address.shown}`: expected an address with a table, such as `env:PAYMENTS_DB#analytics.hourly`."
        )
        raise DefinitionError(msg)
    return find_row_position(
        PostgresTable(url=address.url, table=address.table, shown=address.shown, secrets=address.secrets)
    )


def _locate_table(table: str) -> str:
    """Return the folder or the URI of a table, or of the metadata file that a catalog of Iceberg has for it."""
    address = parse_table_address(table)
    if address is None:
        return storage.make_absolute(table, of="--table")
    if address.scheme == ICEBERG:
        return str(open_iceberg_address(address).table.metadata_location)
    msg = f"--table `{address.shown}`: expected a Delta or Iceberg table or a folder of files here."
    hint = "\nHint: a table in PostgreSQL or a topic alone, without another source, has a record with its position."
    raise DefinitionError(msg + hint)


def cut(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    env: Annotated[
        bool,
        typer.Option(
            "--env", help="Print `CUTOVER_CUT` (offsets for Spark) and `CUTOVER_POSITION`, for `export $(...)`."
        ),
    ] = False,
) -> Output:
    """Print a cut of the pipeline's topics for a batch job: the end of each partition now, as a position.

    A job that reads up to the cut, and records it with its data, can be compared at exactly these offsets.
    """
    settings = load_settings()
    definition = catalogue.get(settings, pipeline)
    end = log_check.find_log_end(LogClient(settings), definition, SystemClock().now())
    environment = make_job_environment(end)
    lines = [f"{name}={value}" for name, value in environment.items()] if env else [environment[POSITION_VARIABLE]]
    return Output(document=end.to_json(), lines=lines)


COMMANDS = {"position": position, "cut": cut}

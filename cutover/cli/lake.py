"""Commands on the lake: `cutover sql`, `vacuum`, `unserved`, `serve-view`, `restore-control` and `dimension`.

Dimensions are the lake's own tables, which pipelines take columns from.
"""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Annotated

import duckdb
import typer
from rich.table import Table

from cutover.cli.definitions import load_command_definition
from cutover.clock import SystemClock
from cutover.counts import count_noun
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import quote_ambiguous
from cutover.definition.model.batch_job import describe_job_table, find_batch_job
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.lake.control import restore, served
from cutover.lake.control.versions import select_stream_version
from cutover.lake.dimensions import load as dimension_load
from cutover.lake.dimensions.dimension import own_uri, uri
from cutover.lake.dimensions.load import Loaded
from cutover.lake.serving import serving_table, views
from cutover.lake.serving import vacuum as unserved_tables
from cutover.lake.serving.serving_table import Publication
from cutover.lake.serving.vacuum import Unserved, delete_unlisted_files
from cutover.lake.tables import delta, schemas
from cutover.output.cells import visible, write_rows
from cutover.output.console import Line, Output, Verbatim, make_table, print_warnings
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import identifier, literal, spark_identifier
from cutover.records.classes import Class
from cutover.settings import Settings, load_settings

app = typer.Typer(help="Tables that pipelines take columns from (`lookups`).", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Of the dimension, as `Lookup(table=...)` names it.")]
Confirm = Annotated[
    bool,
    typer.Option(
        "--confirm", help="Write it although it is empty, or lacks half of the rows, keys or values of a column."
    ),
]


@app.callback()
def dimension() -> None:
    """Tables that pipelines take columns from (`lookups`)."""


@app.command()
def load(
    name: Name,
    file: Annotated[Path, typer.Argument(help="CSV with a head line, or Parquet.", exists=True, dir_okay=False)],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="Columns that must be unique and not null: a,b. As before, unless given; '' for none."
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Types of a CSV's columns: 'ad string, budget decimal(10,2)'.")
    ] = None,
    confirm: Confirm = False,
) -> Output:
    """Replace a dimension by a file, in one commit: running streams take it up within seconds, and record when."""
    settings = load_settings()
    key_columns = None if key is None else [part.strip() for part in key.split(",") if part.strip()]
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.load_dimension(settings, name, file, key=key_columns, schema=schema, joined=joined)
    return _output_loaded(name, loaded)


@app.command()
def show(
    name: Name,
    *,
    rows: Annotated[int, typer.Option("--rows", min=0, max=1_000, help="Rows that are printed.")] = 5,
    versions: Annotated[int, typer.Option("--versions", min=1, max=1_000, help="Newest versions listed.")] = 10,
) -> Output:
    """List the versions of a dimension, the one in force first, and its first rows."""
    settings = load_settings()
    listed_versions = dimension_load.list_dimension_versions(settings, name, limit=versions)
    head = dimension_load.read_head(settings, name, rows)
    document = {
        "dimension": name,
        "versions": [{**asdict(version), "at": version.at.isoformat()} for version in listed_versions],
        "columns": head.column_names,
        "rows": head.to_pylist(),
    }
    table = make_table(
        ("version", "written", "rows", "key", "from"),
        (
            (
                version.version,
                f"{version.at:%Y-%m-%d %H:%M:%S}",
                "unknown" if version.rows is None else f"{version.rows:,}",
                "unknown" if version.key is None else ", ".join(version.key) or "none",
                version.source or "unknown",
            )
            for version in listed_versions
        ),
    )
    first_rows = make_table(
        head.column_names,
        (("null" if value is None else visible(str(value)) for value in row.values()) for row in head.to_pylist()),
    )
    return Output(document=document, lines=[table, *([first_rows] if head.num_rows else [])])


@app.command()
def rollback(
    name: Name,
    *,
    version: Annotated[int, typer.Option("--version", min=0, help="Whose rows are to be in force again.")],
    confirm: Confirm = False,
) -> Output:
    """Make the rows of an older version the newest version; records read from then on are joined with it."""
    settings = load_settings()
    joined = None if confirm else _list_joined_keys(settings, name)
    loaded = dimension_load.roll_back_dimension(settings, name, version, joined=joined)
    return _output_loaded(name, loaded)


def _list_joined_keys(settings: Settings, name: str) -> list[tuple[str, ...]]:
    """List the columns by which pipelines join a dimension; definitions that do not load join nothing."""
    pipelines, _ = catalogue.scan(settings)
    lookups = (lookup for pipeline in pipelines.values() for lookup in pipeline.lookups.values())
    dimension_uri = own_uri(settings, name)
    return [tuple(lookup.on.values()) for lookup in lookups if uri(settings, lookup).rstrip("/") == dimension_uri]


def _output_loaded(name: str, loaded: Loaded) -> Output:
    columns = ", ".join(f"{column} {kind}" for column, kind in loaded.columns.items())
    text = f"{name}: version {loaded.version}, {count_noun(loaded.rows, 'row')} ({columns})"
    return Output(document=asdict(loaded), lines=[text])


_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(ANALYZE\b|\([^)]*\))?", re.IGNORECASE)
VIEWS = ("serving", "streaming", "batch", "ledger", "batch_ledger", "epochs")
STREAMING_JOB, BATCH_JOB = "streaming_job", "batch_job"
"""Further views, of the tables of a team's own jobs."""


def sql(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    query: Annotated[str, typer.Argument(help=f"DuckDB SQL over the views {', '.join(VIEWS)}.")],
    *,
    epoch: Annotated[int | None, typer.Option("--epoch", min=0, help="As the stream was then; else as it is.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="Of the stream; else the one that serves.")] = None,
) -> Output:
    """Query the lake: DuckDB SQL over the views of one pipeline."""
    settings = select_stream_version(load_settings(), version)
    definition = load_command_definition(settings, pipeline)
    _check_reads(pipeline, query)
    lake = PipelineLake(settings, definition)
    connection = views.open_views(lake, epoch=epoch)
    try:
        with _bind_own_tables(connection, lake, query):
            cursor = connection.execute(query)
            rows = cursor.fetchall()
    except duckdb.Error as error:
        beyond = schemas.find_overflow(connection, definition, "epoch_log", [Class.ACCEPTED], error)
        if beyond is not None:
            raise beyond from None
        msg = f"Query on `{pipeline}`: expected DuckDB SQL over {', '.join(VIEWS)}, got: {error}"
        raise DefinitionError(msg) from None
    names = [column[0] for column in cursor.description]
    return Output(document=(dict(zip(names, row, strict=True)) for row in rows), lines=_list_lines(names, rows))


@contextmanager
def _bind_own_tables(connection: duckdb.DuckDBPyConnection, lake: PipelineLake, query: str) -> Iterator[None]:
    """Bind the tables of a team's own jobs that a query names, for as long as the block runs.

    The streaming job's table is read as it is now, the batch job's at its position.

    Raises:
        LakeError: A table cannot be read, or the batch job's has no position.
    """
    stream = lake.pipeline.stream if STREAMING_JOB in query else None
    job = find_batch_job(lake.pipeline.batch) if BATCH_JOB in query else None
    with ExitStack() as stack:
        if stream is not None:
            delta.bind(connection, STREAMING_JOB, delta.open_table(stream.table.path))
        if job is not None:
            from cutover.positions import batch_table
            from cutover.positions.position import UnknownPosition
            from cutover.sources.binding import open_binder

            binder = stack.enter_context(open_binder(connection, lake.settings))
            bound = stack.enter_context(batch_table.bind_job_table(binder, f"{BATCH_JOB}_rows", job))
            if isinstance(bound, UnknownPosition):
                msg = f"Table `{describe_job_table(job.table)}`: expected a position of the batch job: {bound.reason}."
                raise LakeError(msg, runbook="JobTableUnusable")
            marks = [name for name in (bound.is_later, bound.is_earlier) if name is not None]
            columns = f"* EXCLUDE ({', '.join(map(identifier, marks))})" if marks else "*"
            connection.execute(f"CREATE TEMP VIEW {BATCH_JOB} AS SELECT {columns} FROM {BATCH_JOB}_rows")  # noqa: S608 -- internal
        yield


def _list_lines(names: list[str], rows: list[tuple[object, ...]]) -> Iterator[Line]:
    yield tabulate_rows(names, rows) if sys.stdout.isatty() else Verbatim(_format_csv(names, rows))


def _format_csv(names: list[str], rows: list[tuple[object, ...]]) -> str:
    buffer = StringIO()
    write_rows(buffer, [names, *(map(_make_cell, row) for row in rows)])
    return buffer.getvalue()


def _check_reads(pipeline: str, query: str) -> None:
    """Reject what is no query: what writes files or changes how the lake is read, and an empty text."""
    explained = query[m.end() :] if (m := _EXPLAIN.match(query)) else query  # EXPLAIN ANALYZE runs what it explains
    try:
        statement_types = [statement.type for statement in duckdb.extract_statements(explained)]
    except duckdb.Error as error:
        msg = f"Query on `{pipeline}`: expected DuckDB SQL over {', '.join(VIEWS)}, got: {error}"
        raise DefinitionError(msg) from None
    if statement_types == [duckdb.StatementType.SELECT]:
        return
    names = {duckdb.StatementType.MULTI: "a PIVOT that names no values (`ON k IN (...)`)"}
    statement_names = " and ".join(names.get(kind, kind.name) for kind in statement_types) or "none"
    msg = f"Query on `{pipeline}`: expected one query that only reads, such as SELECT, got {statement_names}."
    raise DefinitionError(msg + f"\nHint: `cutover sql {pipeline} QUERY > rows.csv` writes what it returns.")


def vacuum(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    hours: Annotated[int, typer.Option("--hours", min=0, help="Keep files that were listed within this time.")] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> Output:
    """Delete files that no table of a pipeline lists any more; refused while a reader holds a version with them."""
    settings = load_settings()
    definition = load_command_definition(settings, pipeline)
    removal = delete_unlisted_files(
        PipelineLake(settings, definition), hours=hours, now=SystemClock().now(), dry_run=dry_run
    )
    verb = "would be deleted" if dry_run else "deleted"
    return Output(
        document=dict(removal), lines=[f"{name}: {count_noun(files, 'file')} {verb}" for name, files in removal.items()]
    )


def restore_control(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
) -> Output:
    """Write rows again that another writer removed or changed in `_control`, as long as their files exist."""
    settings = load_settings()
    restored_tables = list(restore.restore(settings, dry_run=dry_run))
    lines = [
        f"{restored.table}: {count_noun(restored.rows, 'row')} to write again, "
        f"{count_noun(restored.files, 'file')} of others to leave"
        for restored in restored_tables
    ]
    lost_commits = [
        f"{restored.table} of {name}: {count_noun(n, 'commit')}"
        for restored in restored_tables
        for name, n in restored.lost.items()
    ]
    if lost_commits:
        msg = f"Control tables: expected a file for every missing row, got none for {', '.join(lost_commits)}."
        hint = "\nHint: put the newest copy of the table back. The page describes what to do without a copy."
        print_warnings(lines)
        raise LakeError(msg + hint, runbook="ForeignWrite")
    if restored_tables:
        message = "Nothing was written; without --dry-run it is." if dry_run else "All of it was done; compare again."
    elif restore.any_table_exists(settings):
        message = "The control tables hold all that was written to them."
    else:
        message = (
            "There are no control tables: nothing was recorded yet, or `_control` was deleted; restore it from a copy."
        )
    document = {"tables": [asdict(restored) for restored in restored_tables], "written": not dry_run}
    return Output(document=document, lines=[*lines, message])


def tabulate_rows(names: list[str], rows: list[tuple[object, ...]]) -> Table:
    """Return rows of a query as a table, each value on one line and null by its name."""
    return make_table([visible(name) for name in names], (map(_format_cell, row) for row in rows))


def _flatten_value(value: object) -> object:
    """Return a list as JSON text, in one cell; other values as they are."""
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict) else value


def _make_cell(value: object) -> object:
    """Return a value for CSV; a text is one that can be typed as a key, and no null."""
    flat = _flatten_value(value)
    return quote_ambiguous(flat) if isinstance(flat, str) else flat


def _format_cell(value: object) -> str:
    """Return a value on one line, with control characters as their escapes."""
    text = "null" if value is None else str(_flatten_value(value))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def unserved(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the tables that are due; without it, only list.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--why", help="Reason for the deletion, which is recorded.")] = None,
) -> Output:
    """List streams and batch tables that serve no one, and delete those older than `policy.keep_unserved`.

    They belong to replaced versions and definitions, and to a pipeline whose name another one serves.
    """
    settings, clock = load_settings(), SystemClock()
    definition = _find_definition(settings, pipeline)
    if delete != (reason is not None):
        msg = "Unserved tables: expected `--delete` and `--why` together."
        raise DefinitionError(msg)
    lake = PipelineLake(settings, definition)
    if reason is not None:
        catalogue.get(settings, served.served_by(settings, pipeline))  # a deletion requires the definition's file
        deleted = unserved_tables.delete_unserved(lake, clock, why=reason)
        remaining = unserved_tables.list_unserved(lake, clock.now())
        counts = f"{len(deleted):,} deleted, {len(remaining):,} retained"
        totals = f"{pipeline}: {counts}. `cutover unserved {pipeline}` says why."
        return Output(
            document={"deleted": [asdict(table) for table in deleted], "kept": [asdict(table) for table in remaining]},
            lines=[*(f"deleted: {table.text}, {count_noun(table.files, 'file')}" for table in deleted), totals],
        )
    tables = unserved_tables.list_unserved(lake, clock.now())
    deletable_count = sum(table.retained_because is None for table in tables)
    following = (
        f'`cutover unserved {pipeline} --delete --why "..."` deletes them' if deletable_count else "nothing to do"
    )
    totals = f"{pipeline}: {len(tables):,} tables that serve no one, {deletable_count:,} can be deleted: {following}."
    return Output(
        document={"deleted": [], "kept": [asdict(table) for table in tables]},
        lines=[*map(_describe_table, tables), totals],
    )


def _describe_table(table: Unserved) -> str:
    return (
        f"{table.text}: {count_noun(table.files, 'file')}, since {table.since:%Y-%m-%d %H:%M} UTC, "
        f"{table.retained_because or 'can be deleted'}"
    )


def _find_definition(settings: Settings, name: str) -> Pipeline:
    """Find the definition; if another one serves the name and the file is missing, that one under this name."""
    serves, (pipelines, broken) = served.served_by(settings, name), catalogue.scan(settings)
    if serves == name or name in pipelines or broken:  # an invalid file may define the name, with another policy
        return load_command_definition(settings, name)
    return replace(load_command_definition(settings, serves), name=name)


_CREATE_VIEW = "CREATE OR REPLACE VIEW {name} AS SELECT * FROM {rows};"


def serve_view(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    follow: Annotated[
        float | None, typer.Option("--follow", min=0.1, help="Publish again every N seconds, until Ctrl-C.")
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="Publish even if the served tables have read less than the published one, or have no row."
        ),
    ] = False,
) -> Iterator[Output]:
    """Publish the served rows as one table with a stable name, in one commit, and print how to read it."""
    settings = load_settings()
    publication = _publish(settings, pipeline, anyway=anyway)
    text = _describe_publication(pipeline, publication)
    yield Output(document=_to_fields(publication), lines=[text, *_list_queries(pipeline, publication)])
    if follow is not None:
        yield from _follow(settings, pipeline, publication, follow)


def _publish(settings: Settings, name: str, *, anyway: bool = False) -> Publication:
    """Publish the pipeline that serves a name; after a swap the definition of that name is not needed."""
    pipeline = load_command_definition(settings, served.served_by(settings, name))
    return serving_table.publish(PipelineLake(settings, pipeline), name=name, anyway=anyway)


def _follow(settings: Settings, name: str, publication: Publication, seconds: float) -> Iterator[Output]:
    """Publish until interrupted; failures are reported and retried."""
    while True:
        time.sleep(seconds)
        try:
            latest = _publish(settings, name)
        except CutoverError as error:  # including a definition that is being edited
            print_warnings([*str(error).split("\n"), f"Trying again in {seconds:g} s."])
            continue
        if latest.version != publication.version:
            yield Output(document=_to_fields(latest), lines=[_describe_publication(name, latest)])
        publication = latest


def _describe_publication(name: str, publication: Publication) -> str:
    wrote = f"months written: {len(publication.months):,}" if publication.months else "nothing new"
    epoch = "no epoch" if publication.epoch < 0 else f"epoch {publication.epoch}"
    by = "" if publication.served == name else f" of {publication.served}"
    rows = f"{name}: {count_noun(publication.rows, 'row')}{by} in {publication.stage} up to {epoch}"
    return f"{rows}, version {publication.version} of the table; {wrote}."


def _list_queries(name: str, publication: Publication) -> tuple[str, ...]:
    uri = publication.uri
    copied = () if publication.copy is None else (f"  PostgreSQL SELECT * FROM {publication.copy};",)  # noqa: S608 -- quoted, and only printed
    return (
        f"  Spark      {_CREATE_VIEW.format(name=spark_identifier(name), rows=f'delta.{spark_identifier(uri)}')}",
        f"  DuckDB     {_CREATE_VIEW.format(name=identifier(name), rows=f'delta_scan({literal(uri)})')}",
        f"  delta-rs   DeltaTable({uri!r}).to_pyarrow_table()",
        *copied,
        "Batch runs, moves of the gate and `cutover serve` publish again; while a driver runs, use `--follow 30`.",
    )


def _to_fields(publication: Publication) -> dict[str, object]:
    names = ("uri", "served", "version", "stage", "epoch", "rows", "months", "copy")
    return {name: getattr(publication, name) for name in names}


COMMANDS = {
    "dimension": app,
    "sql": sql,
    "vacuum": vacuum,
    "restore-control": restore_control,
    "unserved": unserved,
    "serve-view": serve_view,
}

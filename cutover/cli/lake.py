"""`cutover sql`, `vacuum`, `restore-control`: query the lake, delete unneeded files, undo changes of other writers."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import Annotated

import duckdb
import typer
from rich.table import Table

from cutover.cli.definitions import find_definition
from cutover.clock import SystemClock
from cutover.definition.loading.key_text import quote_ambiguous
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import restore
from cutover.lake.control.versions import select_stream_version
from cutover.lake.serving import views
from cutover.lake.serving.vacuum import vacuum as delete_unlisted
from cutover.lake.tables import overflow
from cutover.output.cells import visible, write_rows
from cutover.output.console import Line, Output, Verbatim, make_table, print_warnings
from cutover.records.classes import Class
from cutover.settings import load_settings

_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(ANALYZE\b|\([^)]*\))?", re.IGNORECASE)
VIEWS = ("serving", "streaming", "batch", "ledger", "batch_ledger", "epochs")


def sql(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    query: Annotated[str, typer.Argument(help=f"DuckDB SQL over the views {', '.join(VIEWS)}.")],
    *,
    epoch: Annotated[int | None, typer.Option("--epoch", min=0, help="As the stream was then; else as it is.")] = None,
    version: Annotated[int | None, typer.Option("--version", help="Of the stream; else the one that serves.")] = None,
) -> Output:
    """Query the lake: DuckDB SQL over the views of one pipeline."""
    settings = select_stream_version(load_settings(), version)
    definition = find_definition(settings, pipeline)
    _check_reads(pipeline, query)
    connection = views.connect(settings, definition, epoch=epoch)
    try:
        cursor = connection.execute(query)
        rows = cursor.fetchall()
    except duckdb.Error as error:
        beyond = overflow.find_overflow(connection, definition, "epoch_log", [Class.ACCEPTED], error)
        if beyond is not None:
            raise beyond from None
        msg = f"Query on `{pipeline}`: expected DuckDB SQL over {', '.join(VIEWS)}, got: {error}"
        raise DefinitionError(msg) from None
    names = [column[0] for column in cursor.description]
    return Output(document=(dict(zip(names, row, strict=True)) for row in rows), lines=_list_lines(names, rows))


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
    raise DefinitionError(msg + "\nHint: `cutover sql P QUERY > rows.csv` writes what it returns.")


def vacuum(
    pipeline: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    *,
    hours: Annotated[int, typer.Option("--hours", min=0, help="Keep files that were listed within this time.")] = 24,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> Output:
    """Delete files that no table of a pipeline lists any more; refused while a reader holds a version with them."""
    settings = load_settings()
    definition = find_definition(settings, pipeline)
    removal = delete_unlisted(settings, definition, hours=hours, now=SystemClock().now(), dry_run=dry_run)
    verb = "would be deleted" if dry_run else "deleted"
    return Output(document=dict(removal), lines=[f"{name}: {files:,} files {verb}" for name, files in removal.items()])


def restore_control(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
) -> Output:
    """Write rows again that another writer removed or changed in `_control`, as long as their files exist."""
    settings = load_settings()
    restored_tables = list(restore.restore(settings, dry_run=dry_run))
    lines = [
        f"{restored.table}: {restored.rows:,} rows to write again, {restored.files:,} files of others to leave"
        for restored in restored_tables
    ]
    lost_commits = [
        f"{restored.table} of {name}: {n:,} commits"
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


COMMANDS = {"sql": sql, "vacuum": vacuum, "restore-control": restore_control}

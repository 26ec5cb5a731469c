"""Connections to DuckDB, which reads tables without a JVM: one shared engine for small queries, one per large query."""

import os
import re
import shutil
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from cutover import process
from cutover.quoting import literal
from cutover.settings import Settings

_MAX_PREFIX = 200  # characters within which DuckDB's error names the line of a CSV file
_CSV_ERRORS = (  # parts of the error after the line number, without quoted data
    r"(?m)^Expected Number of Columns: \d+ Found: \d+",
    r"(?m)^Value with unterminated quote found",
    r"(?m)^Maximum line size of \d+ bytes exceeded",
    r"(?m)^Invalid unicode",
    r'(?m)^Error when converting column "[^"\n]{1,100}"',
)
_NO_CSV = "not readable as CSV"
_CSV_FILE_ERRORS = {  # errors about a whole file
    "CSV Parser state machine reached an invalid state": "lines that end in different ways, or a line break in a cell"
    " without quotes",
    "Parallel CSV Reader currently does not support a full read": "a record that is too long",
}
_LOCK = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Resource limits of a connection: memory (`512MB`), spilling to disk under `home`, threads (None: all cores)."""

    memory: str
    home: Path
    threads: int | None = None


def open_duckdb(bounds: Bounds | None = None) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection in UTC that never accesses the network.

    Args:
        bounds: Limits of a query over a whole table, which gets a separate engine. None: for single files and small
            tables, in an engine shared by the process, since creating one (20 ms) takes longer than reading them.
            Create only TEMP objects there, which no other connection sees.
    """
    if bounds is None:
        with _LOCK:
            return _configure_connection(_share_engine().cursor())
    connection = _configure_connection(_create_engine())
    connection.execute(f"SET memory_limit = {literal(bounds.memory)}")
    connection.execute(f"SET temp_directory = {literal(str(make_scratch_path(bounds.home)))}")
    if bounds.threads is not None:
        connection.execute(f"SET threads = {int(bounds.threads)}")
    return connection


def make_scratch_path(home: Path) -> Path:
    """Make a unique path for a connection's temporary files, `<home>/tmp/duckdb/...`; delete those of dead processes.

    DuckDB creates the folder when it spills, and removes it when the connection is closed.
    """
    root = home.resolve() / "tmp" / "duckdb"
    root.mkdir(parents=True, exist_ok=True)
    for scratch_folder in root.glob("*-*"):
        pid = scratch_folder.name.split("-")[0]
        if pid.isdigit() and process.identify(int(pid)) is None:
            shutil.rmtree(scratch_folder, ignore_errors=True)
    return root / f"{os.getpid()}-{uuid.uuid4().hex[:12]}"


@cache
def _share_engine() -> duckdb.DuckDBPyConnection:
    return _create_engine()


def _before_fork() -> None:
    """Close the shared engine: a forked child has none of its threads, and would wait for them at exit."""
    _LOCK.acquire()
    _share_engine.cache_clear()


os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def _create_engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"autoinstall_known_extensions": False})


def _configure_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    return connection


def query_table(connection: duckdb.DuckDBPyConnection, query: str, params: object = None) -> pa.Table:
    """Return the rows of a query as an Arrow table.

    Args:
        connection: Connection with the query's tables; Python variables are not visible to the query.
        query: Query that returns rows.
        params: Values of its placeholders.
    """
    # Relations are untyped: an unknown attribute would be a column.
    rows: pa.Table = connection.sql(query, params=params).to_arrow_table()
    return rows


def make_reader_limits(settings: Settings) -> Bounds:
    """Make the limits of a reader of whole tables."""
    return Bounds(memory=settings.read.memory, home=settings.home)


def describe_error(error: duckdb.Error) -> str:
    """Describe an error of DuckDB on one line; for CSV the line number and the problem, never the data."""
    text = str(error)
    line_number = re.search(r"CSV Error on Line: (\d+)", text[:_MAX_PREFIX])
    file = re.search(r"(?m)^  file = (.+)$", text)
    location = "" if file is None else f" (`{Path(file[1]).name}`)"
    if line_number is not None:
        problem = next((match[0] for pattern in _CSV_ERRORS if (match := re.search(pattern, text))), _NO_CSV)
        return f"line {line_number[1]}: {problem}{location}"
    file_problem = next(
        (message for fragment, message in _CSV_FILE_ERRORS.items() if fragment in text[:_MAX_PREFIX]), None
    )
    return text.partition("\n")[0] if file_problem is None else f"{file_problem}{location}"


def fetch_row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """Fetch the only row of an aggregate; all rows are fetched, since a connection is blocked until then."""
    row: tuple[Any, ...] = connection.execute(query).fetchall()[0]
    return row


def fetch_number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Fetch the only number of an aggregate; null counts as 0."""
    return int(fetch_row(connection, query)[0] or 0)


def count_where(condition: str) -> str:
    """Return SQL that counts the rows that satisfy a condition, at constant cost among thousands of counts.

    With FILTER, DuckDB copies the input of all aggregates for each of them: time and memory would be quadratic.
    """
    return f"count(CASE WHEN {condition} THEN 1 END)"

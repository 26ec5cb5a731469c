"""Connections to DuckDB, which reads tables where no JVM runs: one engine for small looks, one for each large query."""

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from cutover.engine import scratch
from cutover.quoting import literal
from cutover.settings import Settings

_LONGEST = 200  # characters in which an error of DuckDB's names the line of a CSV file
_CSV_ERRORS = (  # what it says behind the line itself, without what quotes the data
    r"(?m)^Expected Number of Columns: \d+ Found: \d+",
    r"(?m)^Value with unterminated quote found",
    r"(?m)^Maximum line size of \d+ bytes exceeded",
    r"(?m)^Invalid unicode",
    r'(?m)^Error when converting column "[^"\n]{1,100}"',
)
_NO_CSV = "no CSV that can be read"
_CSV_FILE_ERRORS = {  # what it says of a whole file
    "CSV Parser state machine reached an invalid state": "lines that end in different ways, or a line break in a cell"
    " without quotes",
    "Parallel CSV Reader currently does not support a full read": "a record that is too long",
}
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a connection may take: memory (such as `512MB`), then disk under `home`; threads (None: all cores)."""

    memory: str
    home: Path
    threads: int | None = None


def connect(bounds: Bounds | None = None) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection in UTC that never reaches for the network.

    Args:
        bounds: Limits of a query over a whole table, in a separate engine. None: for single files and small
            tables; to make an engine takes longer (20 ms) than to read those, so a process has one for all of them.
            So objects there are TEMP: no other connection sees them.
    """
    if bounds is None:
        with _ONE_AT_A_TIME:
            return _configure_connection(_share_engine().cursor())
    connection = _configure_connection(_engine())
    connection.execute(f"SET memory_limit = {literal(bounds.memory)}")
    connection.execute(f"SET temp_directory = {literal(str(scratch.folder(bounds.home)))}")
    if bounds.threads is not None:
        connection.execute(f"SET threads = {int(bounds.threads)}")
    return connection


@cache
def _share_engine() -> duckdb.DuckDBPyConnection:
    return _engine()


def _before_fork() -> None:
    """End the engine: a child has none of its threads, and would wait for them at its end."""
    _ONE_AT_A_TIME.acquire()
    _share_engine.cache_clear()


os.register_at_fork(before=_before_fork, after_in_parent=_ONE_AT_A_TIME.release, after_in_child=_ONE_AT_A_TIME.release)


def _engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"autoinstall_known_extensions": False})


def _configure_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    return connection


def read_table(connection: duckdb.DuckDBPyConnection, query: str, params: object = None) -> pa.Table:
    """Return the rows of a query, in the types that DuckDB gives them.

    Args:
        connection: Where the query's tables are bound: a Python variable is none of them.
        query: One that returns rows.
        params: Of its placeholders.
    """
    # A relation has no type information: an attribute that its class does not have would be a column.
    rows: pa.Table = connection.sql(query, params=params).to_arrow_table()
    return rows


def reading(settings: Settings) -> Bounds:
    """Return what one reader of whole tables may take."""
    return Bounds(memory=settings.read.memory, home=settings.home)


def describe_error(error: duckdb.Error) -> str:
    """Return what DuckDB says on one line: of CSV the line of the file and what is wrong with it, never its text."""
    text = str(error)
    place = re.search(r"CSV Error on Line: (\d+)", text[:_LONGEST])
    file = re.search(r"(?m)^  file = (.+)$", text)
    where = "" if file is None else f" (`{Path(file[1]).name}`)"
    if place is not None:
        sentence = next((found[0] for pattern in _CSV_ERRORS if (found := re.search(pattern, text))), _NO_CSV)
        return f"line {place[1]}: {sentence}{where}"
    of_file = next((message for fragment, message in _CSV_FILE_ERRORS.items() if fragment in text[:_LONGEST]), None)
    return text.partition("\n")[0] if of_file is None else f"{of_file}{where}"


def first(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """Return the one row of an aggregate; fetched to its end, as a connection refuses other work before that."""
    row: tuple[Any, ...] = connection.execute(query).fetchall()[0]
    return row


def number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the one number of an aggregate; null counts as 0."""
    return int(first(connection, query)[0] or 0)


def count_where(condition: str) -> str:
    """Return SQL of the number of rows that satisfy a condition; among thousands of such counts, each takes the same.

    DuckDB copies what all aggregates of a query read for each one with a FILTER: time and memory of their square.
    """
    return f"count(CASE WHEN {condition} THEN 1 END)"

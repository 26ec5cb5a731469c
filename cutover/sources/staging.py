"""Part of a table that is read, and a private copy of its rows: a Parquet file that a comparison can read repeatedly.

A source returns the selected columns and rows once, in batches. The copy is the pinned state: it is read from one
snapshot or one transaction, and what its source changes afterwards is not in it. It lies in the folder of temporary
files, which only its owner can read, and is deleted with the comparison, or by the next one if the process was killed.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa

from cutover.engine import queries
from cutover.files import make_private_folder
from cutover.quoting import identifier, literal
from cutover.timestamps import format_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Range of a column of dates or timestamps, in microseconds of UTC; rows without a time are outside."""

    column: str
    start: int | None = None  # inclusive
    end: int | None = None  # exclusive

    def list_bounds(self) -> Iterator[tuple[str, str]]:
        """Yield each bound as an operator and a time of SQL without a zone."""
        for operator, bound in ((">=", self.start), ("<", self.end)):
            if bound is not None:
                yield operator, str(format_micros(bound)).removesuffix("Z").replace("T", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Columns and rows that a reader returns; sources that can, leave out the others where they lie."""

    excluded: frozenset[str] = frozenset()  # columns that are not read
    times: TimeRange | None = None


def select_times_sql(column: str, kind: str, times: TimeRange) -> str | None:
    """Return SQL of the engine that is true for rows in a range; None: the column holds no dates or timestamps.

    Args:
        column: SQL of the column.
        kind: Its DuckDB type.
        times: The range.
    """
    if kind != "DATE" and not kind.startswith("TIMESTAMP"):
        return None
    has_zone = kind.startswith("TIMESTAMP WITH TIME ZONE") or kind == "TIMESTAMPTZ"
    value = f"CAST({column} AS TIMESTAMP_NS)" if kind == "TIMESTAMPTZ_NS" else column
    zone, offset = ("TIMESTAMPTZ", "+00") if has_zone else ("TIMESTAMP", "")
    bounds = [f"{value} {operator} {zone} '{time}{offset}'" for operator, time in times.list_bounds()]
    return " AND ".join(bounds or [f"{column} IS NOT NULL"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Copy of the rows of a table, with what its source says of the columns."""

    path: Path
    pinned: str  # the state that was read, for people
    optional: Mapping[str, bool] = field(default_factory=dict)  # column -> may hold nulls
    unread: tuple[str, ...] = ()  # columns that were left out
    untyped: frozenset[str] = frozenset()  # columns of numbers that no type of the engine holds, as texts
    texts: Mapping[str, str] = field(default_factory=dict)  # column -> its type, of which only texts are held
    properties: Mapping[str, str] = field(default_factory=dict)  # that the writer gave to the state


@contextmanager
def open_staging_folder(home: Path | None) -> Iterator[Path]:
    """Give a private folder for copies while the block runs; it is created when the first copy is written.

    Args:
        home: Home of the installation; None: the system's folder of temporary files.
    """
    folder = (
        Path(tempfile.gettempdir()) / f"cutover-copies-{uuid4().hex}"
        if home is None
        else queries.make_scratch_path(home)
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stage_batches(
    connection: duckdb.DuckDBPyConnection,
    batches: pa.RecordBatchReader,
    columns: Mapping[str, str],
    folder: Path,
) -> Path:
    """Write all rows of a reader into a new file, and return its path.

    Args:
        connection: Where the columns are computed.
        batches: The rows; read to its end.
        columns: Name in the file -> SQL over the columns of the batches.
        folder: Of the copies.

    Raises:
        duckdb.Error: A value does not fit its type, or the disk is full. The file is deleted.
    """
    name = f"batches_{uuid4().hex}"
    path = make_private_folder(folder) / f"{name}.parquet"
    selected = ", ".join(f"{text} AS {identifier(column)}" for column, text in columns.items())
    connection.register(name, batches)
    try:
        connection.execute(
            f"COPY (SELECT {selected} FROM {identifier(name)}) TO {literal(str(path))}"
            " (FORMAT parquet, COMPRESSION snappy)"
        )
    except duckdb.Error:
        path.unlink(missing_ok=True)
        raise
    finally:
        connection.unregister(name)
    return path


def bind_staged_rows(connection: duckdb.DuckDBPyConnection, view: str, rows: StagedRows) -> None:
    """Bind a view to a copy; columns that were left out hold nulls."""
    nulls = "".join(f", NULL AS {identifier(name)}" for name in rows.unread)
    file_rows = f"read_parquet({literal(str(rows.path))}, hive_partitioning = false)"
    connection.execute(f"CREATE TEMP VIEW {identifier(view)} AS SELECT *{nulls} FROM {file_rows}")

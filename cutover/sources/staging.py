"""Part of a table that is read, and a private copy of its rows: a Parquet file that a comparison can read repeatedly.

A source returns the selected columns and rows once, in batches. The copy is the pinned state: it is read from one
snapshot or one transaction, and what its source changes afterwards is not in it. It lies in the folder of temporary
files, which only its owner can read, and is deleted with the comparison, or by the next one if the process was killed.

JSON objects are staged as columns of texts: strings without quotes, numbers as they are written, the rest as JSON.
Objects of scalars, which most values are, are read by the scanner of Python's `json` in one call. Everything else, and
whatever it rejects, is read by the parser of records, which has limits and names what is wrong.
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyarrow import parquet

from cutover.engine import queries
from cutover.files import make_private_folder
from cutover.quoting import identifier, literal
from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import JsonObject
from cutover.records.reference.parse import parse_object
from cutover.records.sending.rows import encode_parsed_json
from cutover.timestamps import format_micros

Fields = dict[str, str | bool | None]
"""Name -> text, or a boolean, whose text is that of JSON."""


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(text)


_DECODER: Any = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_reject_constant)
_scan = _DECODER.scan_once  # without type hints; `raw_decode` catches what it raises, and takes longer


def read_fields(text: str) -> tuple[Fields, tuple[str, ...]]:
    """Read the fields of one JSON object, and the names of those that are objects or arrays.

    Raises:
        ValueError: The text is not exactly one JSON object, or exceeds the limits of records.
        RecursionError: Its nesting is too deep.
    """
    if text.count("{") + text.count("[") == 1:
        try:
            document, end = _scan(text, 0)
        except (ValueError, StopIteration):
            return read_any_fields(text)
        if end == len(text) and isinstance(document, dict) and (end <= limits.MAX_NUMBER or _is_short(document, end)):
            return document, ()
    return read_any_fields(text)


def _is_short(document: Mapping[str, Any], length: int) -> bool:
    """Return whether no number or name can exceed its limit, even of a field that is repeated and thereby hidden."""
    texts = [len(text) for text in (*document, *document.values()) if isinstance(text, str)]
    return max(texts, default=0) <= limits.MAX_NUMBER and length - sum(texts) <= limits.MAX_NUMBER


def read_any_fields(text: str) -> tuple[Fields, tuple[str, ...]]:
    """Read the same by the parser of records.

    Raises:
        ValueError: As `read_fields`.
        RecursionError: As `read_fields`.
    """
    members = dict(parse_object(text).members)
    nested = tuple(name for name, value in members.items() if isinstance(value, JsonObject | list))
    return {name: _format_member(value) for name, value in members.items()}, nested


def _format_member(member: Any) -> str | None:
    return member if member is None or isinstance(member, str) else encode_parsed_json(member)


class TextColumns:
    """File of rows with columns of texts, of which any row may have one more than those before; deleted at the end."""

    def __init__(self, folder: Path) -> None:
        self.names: set[str] = set()
        self._folder = make_private_folder(folder)
        self._parts: list[Path] = []  # one for each set of columns
        self._writer: parquet.ParquetWriter | None = None

    def __enter__(self) -> Self:
        """Give the empty file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Delete what has not been merged."""
        self._close()
        for part in self._parts:
            part.unlink(missing_ok=True)

    def write(self, rows: Sequence[Fields]) -> None:
        """Write rows.

        Raises:
            UnicodeEncodeError: A text has half of a pair of surrogates, which no UTF-8 has.
        """
        writer = self._open_writer(set().union(*rows))
        columns = [_make_column([row.get(name) for row in rows]) for name in sorted(self.names)]
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_make_schema(self.names)))

    def add(self, name: str) -> None:
        """Add a column, which may be in no row."""
        self._open_writer({name})

    def _open_writer(self, names: set[str]) -> parquet.ParquetWriter:
        """Return the writer of a part that has some columns, and all those before."""
        if self._writer is None or not names <= self.names:
            self._close()
            self.names |= names
            schema = _make_schema(self.names)
            self._parts.append(self._folder / f"fields_{uuid4().hex}.parquet")
            self._writer = parquet.ParquetWriter(self._parts[-1], schema, compression="snappy", use_dictionary=False)
        return self._writer

    def merge(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> Path:
        """Merge all rows, in the order in which they were written, into one file with some of the columns.

        Raises:
            duckdb.Error: The disk is full.
        """
        self._close()
        path = self._folder / f"rows_{uuid4().hex}.parquet"
        if len(self._parts) == 1 and self.names == {*names}:
            return self._parts.pop().rename(path)
        files = ", ".join(literal(str(part)) for part in self._parts)
        columns = ", ".join(map(identifier, names))
        rows = f"SELECT {columns} FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)"
        connection.execute(f"COPY ({rows}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION snappy)")
        return path

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _make_schema(names: set[str]) -> pa.Schema:
    return pa.schema({name: pa.string() for name in sorted(names)})


def _make_column(values: Sequence[str | bool | None]) -> pa.StringArray:
    try:
        return pa.array(values, pa.string())
    except pa.ArrowTypeError:  # booleans
        texts = {True: "true", False: "false"}
        return pa.array([texts[value] if isinstance(value, bool) else value for value in values], pa.string())


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

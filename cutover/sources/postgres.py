"""Tables of PostgreSQL, read in one repeatable-read transaction: a snapshot that no other transaction changes.

Rows arrive by COPY as the texts that the server writes, in batches of Arrow, and become values by casts that are exact
or fail. Types with several texts for one value (JSON), or without a type of the engine, are named with the table's
columns, and are compared only where that is asked for.

Source:
    PostgreSQL 15 documentation, 13.2.2 (repeatable read: a snapshot as of the first statement) and 8.1.2 (numeric holds
    NaN, and infinities where it has no precision).
"""

import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import duckdb
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from cutover.errors import DefinitionError, LakeError
from cutover.quoting import identifier
from cutover.sources.addresses import TableAddress
from cutover.sources.reading import DECIMAL_DIGITS, reject_like_names
from cutover.sources.staging import Selection, StagedRows, stage_batches

_SESSION: Mapping[str, Any] = {
    "application_name": "cutover",
    "client_encoding": "utf8",
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,  # milliseconds
}
_OPTIONS = (
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL extra_float_digits = 1",  # the shortest text that is the same float
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL row_security = off",  # an error instead of a part of the rows
    "SET LOCAL lock_timeout = '30s'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_BLOCK = 16 << 20
"""Bytes of a batch, and the longest row."""

_TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "UINTEGER",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "time": "TIME",
    "uuid": "UUID",
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "char"), "VARCHAR"),
}
_ARRAY = (  # `to_json` of a text is rejected by the cast: the engine's lists have one dimension
    "CASE WHEN coalesce(array_ndims({0}), 1) = 1 THEN to_json({0}::text[]) ELSE to_json('dimensions'::text) END::text"
)
_HEADER = 4  # of the modifier of a numeric
_NAME = re.compile(r'("[^"]+"|\w+)(\.("[^"]+"|\w+)){0,2}')
_TIMES = {"date", "timestamp", "timestamptz"}
_COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.attname, a.attnotnull, a.atttypid AS type, a.atttypmod AS modifier
  FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, b.attname, b.attnotnull OR t.typnotnull, t.typbasetype,
         CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END
  FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.attname, b.attnotnull, t.typname, t.typtype::text, e.typname, e.typtype::text, b.modifier,
       format_type(b.type, b.modifier)
FROM base b JOIN pg_type t ON t.oid = b.type
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typtype <> 'd' ORDER BY b.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerColumn:
    """Column of a table of a server, with how its values are sent and read."""

    name: str
    kind: str  # as the server names the type
    sent: str  # SQL of the server, over the quoted name `{}`
    engine_type: str | None  # DuckDB type of the values; None: a number without digits of its own, a text here
    is_optional: bool
    is_comparable: bool = True  # equal values have equal texts
    is_array: bool = False
    time: str | None = None  # the server's type, if rows can be selected by it

    def cast(self, *, has_special_numbers: bool = False) -> str:
        """Return SQL of the engine that makes a value of the text that was sent.

        Args:
            has_special_numbers: Whether NaN and infinity occur among decimals, which then stay texts.
        """
        text = identifier(self.name)
        if self.engine_type in {None, "VARCHAR"} or (has_special_numbers and self.is_decimal):
            return text
        if self.engine_type == "BLOB":
            return f"unhex(substr({text}, 3))"
        if self.is_array:
            return f"CAST(from_json_strict({text}, '[\"VARCHAR\"]') AS {self.engine_type})"
        return f"CAST({text} AS {self.engine_type})"

    @property
    def is_decimal(self) -> bool:
        """Return whether the type of the values has no NaN."""
        return self.engine_type is not None and self.engine_type.startswith("DECIMAL") and not self.is_array


class PostgresSnapshot:
    """One state of a database: everything that is read through it was committed when the first statement began."""

    def __init__(self, connection: psycopg.Connection[Any], address: TableAddress) -> None:
        self._connection = connection
        self._address = address

    def fetch_rows(self, query: sql.SQL | sql.Composed, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a query that returns few rows, such as the position of a batch job."""
        with _describing_errors(self._address):
            rows: list[tuple[Any, ...]] = self._connection.execute(query, values).fetchall()
        return rows

    def read_columns(self, table: str) -> tuple[sql.Identifier, list[ServerColumn]]:
        """Return a table, or a view, as statements name it, and its columns in order.

        Raises:
            DefinitionError: It does not exist, or no column is left to read.
        """
        oid, schema, name = self._find_table(table)
        rows = self.fetch_rows(sql.SQL(_COLUMNS), [oid])
        return sql.Identifier(schema, name), [_describe_column(row) for row in rows]

    def _find_table(self, table: str) -> tuple[int, str, str]:
        """Return the table that SQL would find under a name, else the one that is written exactly so."""
        quoted = ".".join(f'"{part}"' for part in table.replace('"', "").split("."))
        query = sql.SQL(
            "SELECT c.oid::bigint, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = coalesce(to_regclass(%s), to_regclass(%s))"
        )
        names = [table if _NAME.fullmatch(table) else quoted, quoted] if set(table) - set('." ') else []
        rows = self.fetch_rows(query, names) if names else []
        if rows:
            return rows[0][0], rows[0][1], rows[0][2]
        listed = sql.SQL(
            "SELECT schemaname || '.' || name FROM (SELECT schemaname, tablename AS name FROM pg_tables UNION"
            " SELECT schemaname, viewname FROM pg_views) t"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 10"
        )
        tables = ", ".join(str(row[0]) for row in self.fetch_rows(listed)) or "none"
        msg = f"Table `{self._address.shown}`: expected `#schema.table` of the database, got `{table}`."
        raise DefinitionError(msg + f"\nHint: among its tables are: {tables}.")

    def stage(
        self,
        engine: duckdb.DuckDBPyConnection,
        table: str,
        selection: Selection,
        folder: Path,
        conditions: Mapping[str, str] | None = None,
    ) -> StagedRows:
        """Copy the selected rows of a table.

        Args:
            engine: Casts the texts that the server sends.
            table: As SQL names it.
            selection: Columns and rows.
            folder: Of the copy.
            conditions: Name -> SQL of the server that is true or false for a row; further columns of the copy.

        Raises:
            DefinitionError: The table, or the column of times, does not exist.
            LakeError: The server ends the transaction, or a value is one that the engine does not hold.
        """
        place, columns = self.read_columns(table)
        read = [column for column in columns if column.name not in selection.excluded]
        if not read:
            msg = f"Table `{self._address.shown}`: expected a column to read, got none."
            raise DefinitionError(msg)
        reject_like_names(self._address.shown, [column.name for column in columns])
        read += [_make_condition_column(name, condition) for name, condition in (conditions or {}).items()]
        query = self._make_query(place, read, columns, selection)
        try:
            has_special_numbers = False
            path = self._copy(engine, query, read, folder, has_special_numbers=False)
        except duckdb.ConversionException:
            has_special_numbers = any(column.is_decimal for column in read)
            if not has_special_numbers:
                raise
            path = self._copy(engine, query, read, folder, has_special_numbers=True)
        untyped = {c.name for c in read if c.engine_type is None or (has_special_numbers and c.is_decimal)}
        return StagedRows(
            path=path,
            pinned="in one repeatable-read transaction",
            optional={column.name: column.is_optional for column in read},
            unread=tuple(column.name for column in columns if column.name in selection.excluded),
            untyped=frozenset(untyped),
            texts={column.name: column.kind for column in read if not column.is_comparable},
        )

    def _make_query(
        self, place: sql.Identifier, read: Sequence[ServerColumn], columns: Sequence[ServerColumn], selection: Selection
    ) -> sql.Composed:
        sent = [
            sql.SQL(column.sent).format(sql.Identifier(column.name)) + sql.SQL(" AS ") + sql.Identifier(column.name)
            for column in read
        ]
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(sent), place)
        if selection.times is None:
            return query
        name = selection.times.column
        kind = next((column.time for column in columns if column.name == name), None)
        if kind is None:
            msg = f"Table `{self._address.shown}`: column `{name}`: expected a date or a timestamp to select rows by."
            raise DefinitionError(msg)
        bound = "{} {} {}::timestamptz" if kind == "timestamptz" else "{} {} {}::timestamp"
        conditions = [
            sql.SQL(bound).format(sql.Identifier(name), sql.SQL(operator), sql.Literal(time))
            for operator, time in selection.times.list_bounds()
        ] or [sql.SQL("{} IS NOT NULL").format(sql.Identifier(name))]
        return query + sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)

    def _copy(
        self,
        engine: duckdb.DuckDBPyConnection,
        query: sql.Composed,
        columns: Sequence[ServerColumn],
        folder: Path,
        *,
        has_special_numbers: bool,
    ) -> Path:
        casts = {column.name: column.cast(has_special_numbers=has_special_numbers) for column in columns}
        statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, HEADER)").format(query)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            stream = CopyStream(copy)
            batches = csv.open_csv(
                cast("IO[Any]", stream),
                read_options=csv.ReadOptions(block_size=_BLOCK, use_threads=True),
                parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    column_types={column.name: pa.string() for column in columns},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            try:
                return stage_batches(engine, batches, casts, folder)
            except duckdb.Error:
                stream.drain()
                raise


class CopyStream(io.RawIOBase):
    """Bytes of a COPY as a file, which threads of Arrow read ahead."""

    def __init__(self, copy: psycopg.Copy) -> None:
        self._rows = iter(copy)
        self._rest = b""
        self._error: BaseException | None = None
        self._is_ended = False
        self._lock = Lock()

    def readable(self) -> bool:
        """Return whether `read` can be called."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, or less at the end."""
        with self._lock:
            content = b"".join([self._rest, *self._read_rows(size - len(self._rest) if size >= 0 else sys.maxsize)])
            self._rest = b"" if size < 0 else content[size:]
            return content if size < 0 else content[:size]

    def _read_rows(self, size: int) -> list[bytes | bytearray | memoryview]:
        """Read rows of `size` bytes together, or less at the end; a call for each row would take four times as long."""
        rows: list[bytes | bytearray | memoryview] = []
        if self._is_ended or size <= 0:
            return rows
        try:
            for row in self._rows:
                rows.append(row)
                size -= len(row)
                if size <= 0:
                    return rows
        except BaseException as error:
            self._error, self._is_ended = error, True  # the engine would raise another one
            raise
        self._is_ended = True
        return rows

    def drain(self) -> None:
        """Read to the end, so that the connection can be used again; raise the server's error, if it ended the rows."""
        with self._lock:
            while not self._is_ended:
                self._read_rows(_BLOCK)
            self._rest = b""
        if self._error is not None:
            raise self._error


@contextmanager
def open_postgres_snapshot(address: TableAddress) -> Iterator[PostgresSnapshot]:
    """Open a read-only, repeatable-read transaction while the block runs.

    Raises:
        LakeError: The server cannot be reached, or ends the transaction; the message has no password.
    """
    with _describing_errors(address), psycopg.connect(_complete(address), **_SESSION) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        for option in _OPTIONS:
            connection.execute(option.encode())
        yield PostgresSnapshot(connection, address)


def _complete(address: TableAddress) -> str:
    return address.url.replace("postgres://", "postgresql://", 1)


@contextmanager
def _describing_errors(address: TableAddress) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        msg = f"Table `{address.shown}`: expected the right to read all of its rows, got: {address.redact(error)}."
        raise LakeError(msg + "\nHint: `GRANT SELECT`; a policy that hides rows needs a role with BYPASSRLS.") from None
    except (psycopg.Error, UnicodeError, OSError) as error:
        msg = f"Table `{address.shown}`: expected a server that returns its rows, got: {address.redact(error)}."
        hint = "a password comes from PGPASSWORD, PGPASSFILE, or the address in a variable (`env:NAME#schema.table`)"
        raise LakeError(msg + f"\nHint: {hint}.", runbook="TableUnreadable") from None
    except (pa.ArrowException, duckdb.ConversionException, duckdb.InvalidInputException) as error:
        raise LakeError(_describe_value_error(address, str(error)), runbook="TableUnreadable") from None


def _describe_value_error(address: TableAddress, error: str) -> str:
    """Return a message that names the column, if the engine does, and never the value."""
    column = re.search(r"source column \"?([^\s\".]+)", error)
    if "straddl" in error or "block" in error:
        return f"Table `{address.shown}`: expected rows of at most {_BLOCK:,} bytes, got a longer one."
    name = "" if column is None else f" in column `{column[1]}`"
    msg = f"Table `{address.shown}`: expected values that the engine holds, got one that it does not{name}"
    return msg + " (years before Christ, arrays of more than one dimension).\nHint: `--exclude` leaves a column out."


def _make_condition_column(name: str, condition: str) -> ServerColumn:
    return ServerColumn(name=name, kind="bool", sent=condition, engine_type="BOOLEAN", is_optional=False)


def _describe_column(row: Sequence[Any]) -> ServerColumn:
    """Return how a column is sent and read, from its row of `_COLUMNS`: domains are their base types there."""
    name, not_null, base, form, element, element_form, modifier, kind = row
    column = partial(ServerColumn, name=name, kind=kind, is_optional=not not_null)
    if base == "numeric":
        return column(sent="{}::text", engine_type=_find_decimal_type(modifier))
    if base == "money":
        return column(sent="{}::numeric::text", engine_type=None)
    if base == "bytea":
        return column(sent="{}::text", engine_type="BLOB")
    if base in _TYPES or form == "e":
        engine_type = _TYPES.get(base, "VARCHAR")
        return column(sent="{}::text", engine_type=engine_type, time=base if base in _TIMES else None)
    if element in _TYPES or element_form == "e":
        element_type = _TYPES.get(str(element), "VARCHAR")
        return column(sent=_ARRAY, engine_type=f"{element_type}[]", is_array=True)
    return column(sent="{}::text", engine_type="VARCHAR", is_comparable=False)


def _find_decimal_type(modifier: int) -> str | None:
    """Return the engine's type of a numeric; None: its digits are not limited, or too many."""
    if modifier < _HEADER:
        return None
    precision, scale = (modifier - _HEADER) >> 16 & 0xFFFF, ((modifier - _HEADER & 0x7FF) ^ 0x400) - 0x400
    digits = max(precision - min(scale, 0), scale)
    return f"DECIMAL({digits},{max(scale, 0)})" if digits <= DECIMAL_DIGITS else None


def stage_postgres_table(
    engine: duckdb.DuckDBPyConnection, address: TableAddress, selection: Selection, folder: Path
) -> StagedRows:
    """Copy the selected rows of a table from a snapshot of their own.

    Raises:
        DefinitionError: The table or the column of times does not exist.
        LakeError: The server cannot be reached or ends the transaction, or a value cannot be held exactly.
    """
    with open_postgres_snapshot(address) as snapshot:
        return snapshot.stage(engine, address.table, selection, folder)

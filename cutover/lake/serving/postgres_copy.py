"""A copy of a serving table in PostgreSQL, under the same name: each publication one transaction.

Made from a version of the Delta table, so both show the same rows. Months whose files are others than those of the copy
are written anew, in the transaction that notes the version; an older version never comes after a newer one. A statement
sees the rows of one version. So does a transaction that keeps its snapshot, but for a publication that changes columns:
they are changed where the table stands, and a snapshot taken before has nulls in the new ones.

Source:
    PostgreSQL 15 documentation, 13.2.1 (read committed: a statement sees what was committed before it began) and 14.4
    (COPY within the transaction that empties what it fills).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
from deltalake import DeltaTable
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.paths import serving_uri
from cutover.lake.tables import delta
from cutover.quoting import identifier
from cutover.settings import Settings

MONTH = "_month"
_ROWS_A_FETCH = 10_000
_LIMITS = (  # whatever the server's defaults for the user are
    "SET LOCAL lock_timeout = '30s'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_SYSTEM = frozenset({"xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"})
"""Columns that every table of the server has."""

_PATIENCE: Mapping[str, Any] = {
    "application_name": "cutover",
    "client_encoding": "utf8",  # a text that the database cannot hold is refused by the server
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,  # milliseconds: a server that is gone holds up no batch run and no move
}
_NOTES = "__publications"  # no pipeline has such a name
_TYPES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.date32(): "date",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What the copy shows."""

    table: str  # schema and name, quoted
    version: int  # of the Delta table
    months: tuple[str, ...]  # written by this publication; empty: all of it was there


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What a publication leaves behind: the Delta table, its version, and the files of each month."""

    table_id: str
    version: int
    files: Mapping[str, Sequence[str]]


def publish_copy(settings: Settings, address: str, name: str, *, anyway: bool = False) -> Copy:
    """Let the copy show the newest version of a serving table, in one transaction.

    Args:
        settings: Where the lake is, and the schema of the copies.
        address: Of the server, as libpq takes it; it may hold a password.
        name: Of the serving table, which is there.
        anyway: Also where the serving table has no row and the copy has some.

    Raises:
        LakeError: The server cannot be reached, refuses, or cannot hold a value, or the copy would be emptied; it is as
            it was.
    """
    schema, place = settings.serving.postgres_schema, sql.Identifier(settings.serving.postgres_schema, name)
    _refuse_unreadable(address)
    try:
        with psycopg.connect(address, **_PATIENCE) as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            _prepare(connection, schema)
            _take_turn(connection, place.as_string(connection))
            table = delta.open_table(serving_uri(settings, name))  # behind the turn: no older one is opened later
            if not anyway:
                _refuse_emptied(connection, table, schema, name)
            months = _replace(connection, table, schema, name)
            return Copy(table=place.as_string(connection), version=int(table.version()), months=months)
    except (psycopg.Error, duckdb.Error, UnicodeError, OSError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        msg = f"Copy of `{name}` in PostgreSQL: expected a server that takes it, got: {said}."
        hint = "the copy is as it was, the table of the lake is newer; `cutover serve-view` tries again"
        raise LakeError(msg + f"\nHint: {hint}. The address is the setting `serving.postgres`.") from None


def _refuse_unreadable(address: str) -> None:
    """Refuse an address that libpq cannot read; it is not repeated, since it may hold a password.

    Raises:
        LakeError: It cannot.
    """
    try:
        read = conninfo_to_dict(address)
    except psycopg.Error:
        read = {"host": "@"}
    host, port = str(read.get("host") or ""), str(read.get("port") or "")
    if "@" in host or not (port.replace(",", "") or "0").isdigit():
        msg = "`serving.postgres`: expected `postgresql://user@host/database`, got what libpq cannot read so."
        raise LakeError(msg + "\nHint: in a password `@`, `:` and `/` are written `%40`, `%3A` and `%2F`.") from None


def _take_turn(connection: psycopg.Connection[Any], place: str) -> None:
    """Wait until no other publication of the table is at work; the turn, and its limits, end with the transaction."""
    for limit in _LIMITS:
        connection.execute(limit.encode())
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"cutover {place}"])


def _prepare(connection: psycopg.Connection[Any], schema: str) -> None:
    """Make the schema and the table of notes where they are not there yet."""
    _take_turn(connection, f"notes of {schema}")
    there, notes = "SELECT to_regnamespace(%s), to_regclass(%s)", sql.Identifier(schema, _NOTES).as_string(connection)
    has_schema, has_notes = connection.execute(there, [f'"{schema}"', notes]).fetchall()[0]
    if has_schema is None:  # asked first: who may write into a schema need not be allowed to make one
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    columns = "name text PRIMARY KEY, table_id text, version bigint, files jsonb, published_at timestamptz"
    if has_notes is None:
        connection.execute(sql.SQL("CREATE TABLE {} (" + columns + ")").format(sql.Identifier(schema, _NOTES)))
    connection.commit()


def _refuse_emptied(connection: psycopg.Connection[Any], table: DeltaTable, schema: str, name: str) -> None:
    """Reject an empty serving table in the place of a copy with rows.

    Raises:
        LakeError: It is so.
    """
    has_rows = any(int(action["num_records"]) for action in delta.actions(table))
    if has_rows or not _read_columns(connection, schema, name):
        return
    count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, name))
    ((before,),) = connection.execute(count).fetchall()
    if before:
        msg = f"Copy of `{name}` in PostgreSQL: expected rows in the place of its {before:,}, got a table without any."
        raise LakeError(msg + f"\nHint: `cutover serve-view {name} --anyway` empties the copy.")


def _replace(connection: psycopg.Connection[Any], table: DeltaTable, schema: str, name: str) -> tuple[str, ...]:
    """Write the months that are not as the copy has them, and note the version."""
    place, fields = sql.Identifier(schema, name), delta.read_schema(table)
    now = _Note(table_id=str(table.metadata().id), version=int(table.version()), files=_list_files(table))
    note = _read_note(connection, schema, name)
    columns = _read_columns(connection, schema, name)
    wanted = {field.name: _type_of(field.type) for field in fields}
    _refuse_unfit(name, wanted, note, now)
    if note == now and columns == wanted:
        return ()
    if columns and note is None:
        msg = f"Copy of `{name}` in PostgreSQL: expected no other table `{schema}.{name}`, one is there without a note."
        raise LakeError(msg + "\nHint: rename it, or set `serving.postgres_schema` to a schema of Cutover's own.")
    if columns != wanted:
        _change_columns(connection, place, columns, wanted)
        note = None
    old = {} if note is None else note.files
    months = sorted(month for month in {*old, *now.files} if old.get(month) != now.files.get(month))
    gone = sql.SQL("DELETE FROM {} WHERE %s OR {} = ANY(%s)").format(place, sql.Identifier(MONTH))
    connection.execute(gone, [note is None, months])
    _fill(connection, table, place, fields.names, months)
    _write_note(connection, schema, name, now)
    return tuple(months)


def _refuse_unfit(name: str, wanted: Mapping[str, str], note: _Note | None, now: _Note) -> None:
    """Refuse what the server cannot hold, and a lake that went back to an older version of the table.

    Raises:
        LakeError: It is so.
    """
    if system := sorted(_SYSTEM & wanted.keys()):
        msg = f"Copy of `{name}` in PostgreSQL: expected columns that the server has not itself, got `{system[0]}`."
        raise LakeError(msg + "\nHint: rename it in the definition, or go without a copy.")
    if note is not None and note.table_id == now.table_id and note.version > now.version:
        msg = f"Copy of `{name}` in PostgreSQL: expected a table at version {note.version} or newer, as the copy is, "
        msg += f"got version {now.version}: the lake went back."
        raise LakeError(msg + f"\nHint: if that was meant, drop the copy and its row in `{_NOTES}`.")


def _list_files(table: DeltaTable) -> dict[str, list[str]]:
    """Return the files of each month; a file's name holds the checksum of its bytes."""
    found: dict[str, list[str]] = {}
    for action in delta.actions(table):
        found.setdefault(str(action[f"partition.{MONTH}"]), []).append(str(action["path"]))
    return {month: sorted(files) for month, files in found.items()}


def _read_note(connection: psycopg.Connection[Any], schema: str, name: str) -> _Note | None:
    wanted = sql.SQL("SELECT table_id, version, files FROM {} WHERE name = %s").format(sql.Identifier(schema, _NOTES))
    row = connection.execute(wanted, [name]).fetchone()
    return None if row is None else _Note(table_id=row[0], version=row[1], files=row[2])


def _write_note(connection: psycopg.Connection[Any], schema: str, name: str, note: _Note) -> None:
    values = [name, note.table_id, note.version, Jsonb(note.files)]
    place = sql.Identifier(schema, _NOTES)
    connection.execute(sql.SQL("DELETE FROM {} WHERE name = %s").format(place), [name])
    connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, now())").format(place), values)


def _read_columns(connection: psycopg.Connection[Any], schema: str, name: str) -> dict[str, str]:
    """Return the columns of the copy with their types; none: it is not there."""
    wanted = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped"
    )
    return dict(connection.execute(wanted, [schema, name]).fetchall())


def _change_columns(
    connection: psycopg.Connection[Any], place: sql.Identifier, there: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    """Give a table other columns where it stands, so that whoever waits to read it finds it; make it if it is none."""
    kept = {name for name, kind in there.items() if wanted.get(name) == kind}
    new = [
        sql.SQL("ADD COLUMN {} " + kind).format(sql.Identifier(name))
        for name, kind in wanted.items()
        if name not in kept
    ]
    gone = [sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in there if name not in kept]
    connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ()").format(place))
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(place, sql.SQL(", ").join([*gone, *new])))


def _type_of(kind: pa.DataType) -> str:
    """Return PostgreSQL's type, as it names it itself: lists and structs are `jsonb`."""
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return _TYPES.get(kind, "jsonb")


def _fill(
    connection: psycopg.Connection[Any],
    table: DeltaTable,
    place: sql.Identifier,
    columns: Sequence[str],
    months: Sequence[str],
) -> None:
    """Copy the rows of some months, every value as text, which the column's type reads; no other file is read."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    with queries.connect() as lake, connection.cursor() as cursor:
        paths = [str(one["path"]) for one in delta.actions(table) if str(one[f"partition.{MONTH}"]) in months]
        if not paths:
            return
        delta.bind(lake, "published_rows", table, paths=paths)
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(place, names)) as copy:
            for row in _read_rows(lake, delta.read_schema(table), months):
                copy.write_row(row)


def _read_rows(
    lake: duckdb.DuckDBPyConnection, fields: pa.Schema, months: Sequence[str]
) -> Iterator[tuple[str | None, ...]]:
    columns = ", ".join(_text_sql(field) for field in fields)
    wanted = f"SELECT {columns} FROM published_rows WHERE {MONTH} IN (SELECT unnest(?))"  # noqa: S608 -- quoted
    found = lake.execute(wanted, [list(months)])
    while rows := found.fetchmany(_ROWS_A_FETCH):
        yield from rows


def _text_sql(field: "pa.Field[Any]") -> str:
    name = identifier(field.name)
    return f"to_json({name})::VARCHAR" if _type_of(field.type) == "jsonb" else f"{name}::VARCHAR"

"""Copy of a serving table in PostgreSQL, under the same name: each publication is one transaction.

The copy is written from a version of the Delta table, so both have the same rows. Months whose files differ from those
of the copy are written again, in the transaction that notes the version; an older version never follows a newer one. A
statement sees the rows of one version. So does a transaction that keeps its snapshot, except after a publication that
changes columns: the table is altered in place, and a snapshot taken before has nulls in the new columns.

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
from cutover.lake.tables import delta
from cutover.pipeline_lake import serving_uri
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
    "client_encoding": "utf8",  # the server rejects a text that the database cannot store
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,  # milliseconds: an unreachable server must not delay batch runs and stage changes
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
    """Published copy of a serving table."""

    table: str  # schema and name, quoted
    version: int  # of the Delta table
    months: tuple[str, ...]  # written by this publication; empty: the copy already had all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """Note of a publication: the Delta table, its version, and the files of each month."""

    table_id: str
    version: int
    files: Mapping[str, Sequence[str]]


def publish_copy(settings: Settings, address: str, name: str, *, anyway: bool = False) -> Copy:
    """Publish the newest version of a serving table to its copy, in one transaction.

    Args:
        settings: Location of the lake, and the schema of the copies.
        address: Address of the server for libpq; it may contain a password.
        name: Name of an existing serving table.
        anyway: Publish even if the serving table is empty and the copy has rows.

    Raises:
        LakeError: The server cannot be reached, rejects the transaction, or cannot store a value, or the copy would
            become empty; the copy is unchanged.
    """
    schema, place = settings.serving.postgres_schema, sql.Identifier(settings.serving.postgres_schema, name)
    _check_address(address)
    try:
        with psycopg.connect(address, **_PATIENCE) as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            _prepare(connection, schema)
            _lock(connection, place.as_string(connection))
            table = delta.open_table(serving_uri(settings, name))  # opened under the lock, so versions only increase
            if not anyway:
                _reject_emptied(connection, table, schema, name)
            months = _replace(connection, table, schema, name)
            return Copy(table=place.as_string(connection), version=int(table.version()), months=months)
    except (psycopg.Error, duckdb.Error, UnicodeError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        msg = f"Copy of `{name}` in PostgreSQL: expected a server that accepts it, got: {reason}."
        hint = "the copy is unchanged, the table of the lake is newer; `cutover serve-view` tries again"
        raise LakeError(msg + f"\nHint: {hint}. The address is the setting `serving.postgres`.") from None


def _check_address(address: str) -> None:
    """Check that libpq can parse an address; the message does not repeat it, since it may contain a password.

    Raises:
        LakeError: libpq cannot parse it.
    """
    try:
        parameters = conninfo_to_dict(address)
    except psycopg.Error:
        parameters = {"host": "@"}
    host, port = str(parameters.get("host") or ""), str(parameters.get("port") or "")
    if "@" in host or not (port.replace(",", "") or "0").isdigit():
        msg = "`serving.postgres`: expected `postgresql://user@host/database`, got an address that libpq cannot parse."
        raise LakeError(msg + "\nHint: in a password `@`, `:` and `/` are written `%40`, `%3A` and `%2F`.") from None


def _lock(connection: psycopg.Connection[Any], place: str) -> None:
    """Wait for other publications of the table; the lock, and the limits, end with the transaction."""
    for limit in _LIMITS:
        connection.execute(limit.encode())
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"cutover {place}"])


def _prepare(connection: psycopg.Connection[Any], schema: str) -> None:
    """Create the schema and the table of notes if they do not exist."""
    _lock(connection, f"notes of {schema}")
    query, notes = "SELECT to_regnamespace(%s), to_regclass(%s)", sql.Identifier(schema, _NOTES).as_string(connection)
    has_schema, has_notes = connection.execute(query, [f'"{schema}"', notes]).fetchall()[0]
    if has_schema is None:  # checked first: a role that may write into a schema may lack the right to create one
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    columns = "name text PRIMARY KEY, table_id text, version bigint, files jsonb, published_at timestamptz"
    if has_notes is None:
        connection.execute(sql.SQL("CREATE TABLE {} (" + columns + ")").format(sql.Identifier(schema, _NOTES)))
    connection.commit()


def _reject_emptied(connection: psycopg.Connection[Any], table: DeltaTable, schema: str, name: str) -> None:
    """Reject an empty serving table if the copy has rows.

    Raises:
        LakeError: The table is empty and the copy is not.
    """
    has_rows = any(int(action["num_records"]) for action in delta.actions(table))
    if has_rows or not _read_columns(connection, schema, name):
        return
    count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, name))
    ((published,),) = connection.execute(count).fetchall()
    if published:
        msg = f"Copy of `{name}` in PostgreSQL: expected rows in the place of its {published:,}, got an empty table."
        raise LakeError(msg + f"\nHint: `cutover serve-view {name} --anyway` empties the copy.")


def _replace(connection: psycopg.Connection[Any], table: DeltaTable, schema: str, name: str) -> tuple[str, ...]:
    """Write the months that differ from those of the copy, and note the version."""
    place, fields = sql.Identifier(schema, name), delta.read_schema(table)
    new_note = _Note(table_id=str(table.metadata().id), version=int(table.version()), files=_list_files(table))
    note = _read_note(connection, schema, name)
    columns = _read_columns(connection, schema, name)
    types = {field.name: _type_of(field.type) for field in fields}
    _check_replacement(name, types, note, new_note)
    if note == new_note and columns == types:
        return ()
    if columns and note is None:
        msg = f"Copy of `{name}` in PostgreSQL: expected no other table `{schema}.{name}`, one exists without a note."
        raise LakeError(msg + "\nHint: rename it, or set `serving.postgres_schema` to a schema for Cutover alone.")
    if columns != types:
        _change_columns(connection, place, columns, types)
        note = None
    old_files = {} if note is None else note.files
    months = sorted(m for m in {*old_files, *new_note.files} if old_files.get(m) != new_note.files.get(m))
    deletion = sql.SQL("DELETE FROM {} WHERE %s OR {} = ANY(%s)").format(place, sql.Identifier(MONTH))
    connection.execute(deletion, [note is None, months])
    _fill(connection, table, place, fields.names, months)
    _write_note(connection, schema, name, new_note)
    return tuple(months)


def _check_replacement(name: str, types: Mapping[str, str], note: _Note | None, new_note: _Note) -> None:
    """Check that the server can store the columns, and that the table has not returned to an older version.

    Raises:
        LakeError: A column has a reserved name, or the table is older than the copy.
    """
    if system := sorted(_SYSTEM & types.keys()):
        msg = f"Copy of `{name}` in PostgreSQL: expected no system column of the server, got `{system[0]}`."
        raise LakeError(msg + "\nHint: rename it in the definition, or do without a copy.")
    if note is not None and note.table_id == new_note.table_id and note.version > new_note.version:
        msg = f"Copy of `{name}` in PostgreSQL: expected a table at version {note.version} or newer, as the copy is, "
        msg += f"got version {new_note.version}: the lake was restored to an older state."
        raise LakeError(msg + f"\nHint: if this was intended, drop the copy and its row in `{_NOTES}`.")


def _list_files(table: DeltaTable) -> dict[str, list[str]]:
    """Return the files of each month; a file's name holds the checksum of its bytes."""
    files_by_month: dict[str, list[str]] = {}
    for action in delta.actions(table):
        files_by_month.setdefault(str(action[f"partition.{MONTH}"]), []).append(str(action["path"]))
    return {month: sorted(files) for month, files in files_by_month.items()}


def _read_note(connection: psycopg.Connection[Any], schema: str, name: str) -> _Note | None:
    query = sql.SQL("SELECT table_id, version, files FROM {} WHERE name = %s").format(sql.Identifier(schema, _NOTES))
    row = connection.execute(query, [name]).fetchone()
    return None if row is None else _Note(table_id=row[0], version=row[1], files=row[2])


def _write_note(connection: psycopg.Connection[Any], schema: str, name: str, note: _Note) -> None:
    values = [name, note.table_id, note.version, Jsonb(note.files)]
    place = sql.Identifier(schema, _NOTES)
    connection.execute(sql.SQL("DELETE FROM {} WHERE name = %s").format(place), [name])
    connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, now())").format(place), values)


def _read_columns(connection: psycopg.Connection[Any], schema: str, name: str) -> dict[str, str]:
    """Return the columns of the copy with their types; empty: it does not exist."""
    query = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped"
    )
    return dict(connection.execute(query, [schema, name]).fetchall())


def _change_columns(
    connection: psycopg.Connection[Any], place: sql.Identifier, columns: Mapping[str, str], types: Mapping[str, str]
) -> None:
    """Create a table, or alter its columns in place, so that readers which wait for it still find it."""
    unchanged = {name for name, kind in columns.items() if types.get(name) == kind}
    added = [
        sql.SQL("ADD COLUMN {} " + kind).format(sql.Identifier(name))
        for name, kind in types.items()
        if name not in unchanged
    ]
    dropped = [sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in columns if name not in unchanged]
    connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ()").format(place))
    connection.execute(sql.SQL("ALTER TABLE {} {}").format(place, sql.SQL(", ").join([*dropped, *added])))


def _type_of(kind: pa.DataType) -> str:
    """Return the name of PostgreSQL's type, as its catalogue has it: lists and structs are `jsonb`."""
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
    """Copy the rows of some months from their files alone, every value as text that the column's type parses."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    with queries.open_duckdb() as lake, connection.cursor() as cursor:
        paths = [str(action["path"]) for action in delta.actions(table) if str(action[f"partition.{MONTH}"]) in months]
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
    query = f"SELECT {columns} FROM published_rows WHERE {MONTH} IN (SELECT unnest(?))"  # noqa: S608 -- quoted
    result = lake.execute(query, [list(months)])
    while rows := result.fetchmany(_ROWS_A_FETCH):
        yield from rows


def _text_sql(field: "pa.Field[Any]") -> str:
    name = identifier(field.name)
    return f"to_json({name})::VARCHAR" if _type_of(field.type) == "jsonb" else f"{name}::VARCHAR"

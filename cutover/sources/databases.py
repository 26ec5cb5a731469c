"""Tables of a DuckDB file, read where they lie, and those of other databases, read once by Ibis.

A DuckDB file is attached read-only, which keeps writers out until the comparison ends. Of every other database one
statement returns all rows, so they are one state wherever a statement sees one. Ibis needs the driver of the database,
such as `ibis-framework[snowflake]`; its address is the URL that `ibis.connect` takes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import duckdb
import pyarrow as pa

from cutover.engine.queries import describe_error
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.quoting import identifier, literal
from cutover.sources.addresses import TableAddress
from cutover.sources.reading import reject_like_names
from cutover.sources.staging import Selection, StagedRows, TimeRange, stage_batches

DUCKDB = "duckdb"
_BATCH = 65_536
_READ = frozenset(
    [
        "array",
        "binary",
        "boolean",
        "date",
        "decimal",
        "float16",
        "float32",
        "float64",
        "int16",
        "int32",
        "int64",
        "int8",
        "map",
        "string",
        "struct",
        "time",
        "timestamp",
        "uint16",
        "uint32",
        "uint64",
        "uint8",
        "uuid",
    ]
)
"""Types of Ibis whose values Arrow and the engine hold exactly."""

_MICROS_A_DAY = 86_400_000_000


def attach_duckdb_table(connection: duckdb.DuckDBPyConnection, address: TableAddress) -> tuple[str, str]:
    """Attach a DuckDB file read-only; return the name of the attached database and SQL of the table.

    Raises:
        DefinitionError: The file or the table does not exist.
        LakeError: The file cannot be read, or another process writes to it.
    """
    path = Path(unquote(address.host + address.path))
    path = path if path.is_file() else Path(unquote((address.host + address.path).lstrip("/")))
    if not path.is_file():
        msg = f"Table `{address.shown}`: expected a DuckDB file, found none at `{path}`."
        raise DefinitionError(msg + "\nHint: `duckdb:///home/me/sales.duckdb#schema.table` names an absolute path.")
    database = f"attached_{uuid4().hex}"
    try:
        connection.execute(f"ATTACH {literal(str(path))} AS {identifier(database)} (READ_ONLY, TYPE duckdb)")
    except duckdb.Error as error:
        msg = f"Table `{address.shown}`: expected a DuckDB file that no other process writes to, got: "
        raise LakeError(msg + describe_error(error), runbook="TableUnreadable") from None
    schema, _, name = address.table.rpartition(".")
    tables = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = ? ORDER BY ALL",
        [database],
    ).fetchall()
    if (schema or "main", name) not in tables:
        connection.execute(f"DETACH {identifier(database)}")
        names = ", ".join(".".join(row) for row in tables[:10]) or "none"
        msg = f"Table `{address.shown}`: expected `#schema.table` of the file, got `{address.table}`."
        raise DefinitionError(msg + f"\nHint: among its tables are: {names}.")
    return database, ".".join(map(identifier, (database, schema or "main", name)))


def stage_database_rows(
    engine: duckdb.DuckDBPyConnection, address: TableAddress, selection: Selection, folder: Path
) -> tuple[StagedRows, Mapping[str, str]]:
    """Copy the selected rows of a table by Ibis; return the copy, and the columns of which types are not read.

    Raises:
        DefinitionError: There is no driver, the table does not exist, or no column is left to read.
        LakeError: The database cannot be reached, or a value is not of its column's type.
    """
    table = _open_table(address)
    schema = table.schema()
    types = {name: str(kind) for name, kind in schema.items()}
    reject_like_names(address.shown, types)
    foreign = {name: types[name] for name, kind in schema.items() if _has_unread_type(kind)}
    read = [name for name in types if name not in selection.excluded and name not in foreign]
    if not read:
        msg = f"Table `{address.shown}`: expected a column to read, got none."
        raise DefinitionError(msg)
    with _describing_errors(address, shows_message=False):
        rows = table if selection.times is None else _filter_times(address, table, selection.times)
        batches: pa.RecordBatchReader = rows.select(read).to_pyarrow_batches(chunk_size=_BATCH)
        path = stage_batches(engine, batches, {name: identifier(name) for name in read}, folder)
    staged = StagedRows(
        path=path,
        pinned="by one statement",
        optional={name: bool(kind.nullable) for name, kind in schema.items() if name in read},
        unread=tuple(name for name in types if name not in read),
    )
    return staged, {name: kind for name, kind in foreign.items() if name not in selection.excluded}


def _open_table(address: TableAddress) -> Any:
    import ibis  # noqa: PLC0415 -- a second that other tables need not pay

    schema, _, name = address.table.rpartition(".")
    try:
        with _describing_errors(address):
            backend = ibis.connect(address.url)
            return backend.table(name, database=tuple(schema.split(".")) if "." in schema else schema or None)
    except ImportError:
        package = f"ibis-framework[{address.scheme}]"
        msg = f"Table `{address.shown}`: expected the driver of `{address.scheme}`, it is not installed."
        raise DefinitionError(msg + f"\nHint: `pip install '{package}'`.") from None


def _has_unread_type(kind: Any) -> bool:
    """Return whether a type of Ibis, or a part of one, has no exact type of the engine."""
    if kind.is_array():
        return _has_unread_type(kind.value_type)
    if kind.is_map():
        return _has_unread_type(kind.key_type) or _has_unread_type(kind.value_type)
    if kind.is_struct():
        return any(map(_has_unread_type, kind.types))
    if kind.is_decimal():
        return kind.precision is None or kind.precision > 38  # noqa: PLR2004 -- the widest decimal of the engine
    return type(kind).__name__.lower() not in _READ


def _filter_times(address: TableAddress, table: Any, times: TimeRange) -> Any:
    import ibis  # noqa: PLC0415

    kind = table.schema().get(times.column)
    if kind is None or not (kind.is_date() or kind.is_timestamp()):
        msg = f"Table `{address.shown}`: column `{times.column}`: expected a date or a timestamp to select rows by,"
        raise DefinitionError(msg + f" got {kind or 'none'}.")
    column = table[times.column]
    conditions = [column.notnull()]
    if times.start is not None:
        conditions.append(column >= ibis.literal(_make_bound(times.start, kind), type=kind))
    if times.end is not None:
        conditions.append(column < ibis.literal(_make_bound(times.end, kind), type=kind))
    return table.filter(conditions)


def _make_bound(micros: int, kind: Any) -> date | datetime:
    """Return a bound as the type of its column has it; a day is in a range if its midnight is."""
    if kind.is_date():
        micros = -(-micros // _MICROS_A_DAY) * _MICROS_A_DAY
    seconds, fraction = divmod(micros, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=fraction)
    if kind.is_date():
        return at.date()
    return at if kind.timezone is not None else at.replace(tzinfo=None)


@contextmanager
def _describing_errors(address: TableAddress, *, shows_message: bool = True) -> Iterator[None]:
    """Turn errors of Ibis and of the drivers below it into one without secrets, and without data."""
    try:
        yield
    except (CutoverError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001 -- each database raises errors of its own driver
        reason = (
            address.redact(error) if shows_message else f"{type(error).__name__} (a value not of its column's type?)"
        )
        msg = f"Table `{address.shown}`: expected a table that Ibis can read, got: {reason}."
        hint = "`--exclude` leaves a column out; any other database can export the table to Parquet"
        raise LakeError(msg + f"\nHint: {hint}.", runbook="TableUnreadable") from None

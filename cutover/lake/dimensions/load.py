"""Versions of dimensions in the lake: a file, or an older version, becomes the newest version in one checked commit.

Each cell of a CSV file is validated by the parser of records.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from cutover.counts import count_clause, count_noun
from cutover.definition.model.topic import SIMPLE, check_name, parse_decimal_type, parse_schema
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.dimensions.dimension import CONFIRMED, ROWS, NewRows, check_replacement, own_uri
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import map_spark_type_to_arrow, spark_type
from cutover.quoting import identifier, literal
from cutover.records.csv_files import convert_cell, read_csv
from cutover.records.parsing.parsed_record import InvalidValueError
from cutover.records.record_files import describe_invalid_value, format_name
from cutover.records.reference.scalars import parse_value
from cutover.settings import Settings
from cutover.timestamps import from_micros

CHUNK = 50_000

RETENTION = {
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 30 days",
}
"""Retention of older versions: as long as records that were joined with them may be joined again."""

FILE = "file"
_FROM, _KEY = "cutover.from", "cutover.key"
"""Keys of a commit's metadata: source of the version's rows, and its unique columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Version of a dimension that was written."""

    uri: str
    version: int
    rows: int
    columns: Mapping[str, str]  # name -> type


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """Version of a dimension, as its table's log describes it."""

    version: int
    at: datetime
    rows: int | None  # None: its files no longer exist
    source: str | None  # name of the file, or the version that was restored; None: written by another writer
    key: tuple[str, ...] | None  # columns whose values were checked to be unique; None: written by another writer


def read_header(file: Path) -> list[str]:
    """Return the names of the columns.

    Raises:
        DefinitionError: The file is no CSV with a header.
    """
    _, header = next(read_csv(file), (1, []))
    if not header:
        msg = f"{file}, line 1: expected a header, got an empty file."
        raise DefinitionError(msg)
    return header


def read_typed_rows(place: str, file: Path, columns: Mapping[str, str]) -> pa.Table:
    """Return the rows of a CSV file with typed columns; an empty cell is null, times are in ISO 8601.

    Args:
        place: Prefix of messages.
        file: CSV with a header.
        columns: Name to type, in the order of the header.

    Raises:
        DefinitionError: The file cannot be read, a row has another number of cells, or cells are not values of their
            type; names the number of such cells, and the first line, column and cell.
    """
    schema = pa.schema([pa.field(name, map_spark_type_to_arrow(kind)) for name, kind in columns.items()])
    reader = _TypedReader(place, file, columns)
    batches = [pa.Table.from_pydict(chunk, schema=schema) for chunk in reader.read_chunks()]
    reader.check()
    return pa.concat_tables([schema.empty_table(), *batches])


class _TypedReader:
    def __init__(self, place: str, file: Path, columns: Mapping[str, str]) -> None:
        self._place = place
        self._file = file
        self._columns = columns
        self._invalid_cells = 0
        self._first = ""

    def read_chunks(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the values of some rows by column."""
        records = islice(read_csv(self._file), 1, None)
        while chunk := list(islice(records, CHUNK)):
            for line, cells in chunk:
                if len(cells) != len(self._columns):
                    msg = (
                        f"{self._place}, line {line}: expected "
                        f"{count_noun(len(self._columns), 'cell')}, got {len(cells)}."
                    )
                    raise DefinitionError(msg)
            yield {
                name: self._read_column(name, kind, [(line, cells[place]) for line, cells in chunk])
                for place, (name, kind) in enumerate(self._columns.items())
            }

    def check(self) -> None:
        """Check that all cells were values of their type.

        Raises:
            DefinitionError: Names the first cell that was not.
        """
        if self._invalid_cells:
            further = (
                f"; {count_clause(self._invalid_cells - 1, 'other cell', 'does', 'do')} not fit either"
                if self._invalid_cells > 1
                else ""
            )
            msg = f"{self._place}, {self._first}{further}."
            raise DefinitionError(msg + "\nHint: such as -12, 1.5e3, true, 2013-01-31 or 2013-01-31 23:59:59.5 (UTC).")

    def _read_column(self, name: str, kind: str, cells: Sequence[tuple[int, str]]) -> list[Any]:
        if kind == "string":
            return [cell or None for _, cell in cells]
        return [self._read_cell(name, kind, line, cell) for line, cell in cells]

    def _read_cell(self, name: str, kind: str, line: int, cell: str) -> Any:
        value = convert_cell(cell, kind, "iso")
        try:
            return parse_value(value, kind, "iso")
        except InvalidValueError:
            if not self._invalid_cells:
                self._first = f"line {line}, column `{name}`: {describe_invalid_value(value, kind, 'iso')}"
            self._invalid_cells += 1
            return None


def load_dimension(
    settings: Settings,
    name: str,
    file: Path,
    *,
    key: Sequence[str] | None = None,
    schema: str | None = None,
    joined: Sequence[Sequence[str]] | None = (),
) -> Loaded:
    """Replace the rows of a dimension by those of a file.

    Args:
        settings: Location of the lake.
        name: Name of the dimension.
        file: `.parquet`, or CSV with a header (also compressed).
        key: Columns whose values must be unique and not null. None: those of the previous version.
        schema: Types of the CSV's columns, such as `ad_id string, budget decimal(10,2)`. A column that it does not
            name has its type of the previous version, else text. Empty cells are null.
        joined: Columns by which pipelines join the dimension, one tuple per join: their values must not be lost. None:
            the new version is not compared with the previous one, and may be empty.

    Raises:
        DefinitionError: The name, the file, its columns, their types or the key are invalid, it lacks much of the
            previous version, or the key of that version is unknown; nothing was written.
        LakeError: The table cannot be read or written.
    """
    check_name(name, of="Dimension")
    uri = own_uri(settings, name)
    types = _read_known_types(uri)
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        place = f"Dimension `{name}`, file `{file}`"
        try:
            columns = _parquet(connection, place, file) if file.suffix == ".parquet" else None
            columns = columns or _csv(connection, place, file, types, schema)
            _check_columns(place, columns, types)
            previous_key = _find_key(delta.open_table(uri)) if delta.exists(uri) else ()
            unique = previous_key if key is None else tuple(key)
            if unique is None:
                msg = f"{place}: expected the key of the current version in the table's log, which no longer has its "
                msg += "load.\nHint: nothing was written; name the key: "
                raise DefinitionError(msg + "`--key COLUMNS`, or `--key ''` if there is none.")
            _check_key(connection, place, columns, unique)
            new = NewRows(
                dimension=name,
                place=place,
                source=file.name,
                relation=FILE,
                columns=columns,
                key=unique,
                joined=[previous_key or (), *(joined or ())],
            )
            loaded = _replace(connection, uri, new, is_compared=joined is not None)
        except duckdb.Error as error:
            msg = f"{place}: expected a CSV or Parquet file that can be read, got: {queries.describe_error(error)}"
            raise DefinitionError(msg) from error
    return loaded


def roll_back_dimension(
    settings: Settings, name: str, version: int, *, joined: Sequence[Sequence[str]] | None = ()
) -> Loaded:
    """Restore the rows of an older version of a dimension as its newest version; `joined` is as in `load_dimension`.

    Its key is that of the older version, else that of the current one.

    Raises:
        DefinitionError: The version does not exist or is the current one, its key is not unique, or it lacks a column
            or much of the current version.
        LakeError: The files of the version no longer exist.
    """
    check_name(name, of="Dimension")
    uri = own_uri(settings, name)
    newest = delta.open_table(uri)
    place = f"Dimension `{name}`, version {version}"
    _check_version(name, place, newest, version)
    older = delta.open_table(uri, version)
    columns = {field.name: spark_type(field.type) for field in delta.read_schema(older)}
    _check_columns(place, columns, _read_known_types(uri))
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        delta.bind(connection, FILE, older)
        with delta.naming(older):
            current_key, older_key = _find_key(newest), _find_key(older)
            unique = older_key or (current_key if joined is not None else ())
            if unique is None:
                msg = f"{place}: expected the key of an earlier load in the table's log, which no longer has one.\n"
                msg += "Hint: nothing was written; `--confirm` restores it without a comparison."
                raise DefinitionError(msg)
            _check_key(connection, place, columns, unique)
            new = NewRows(
                dimension=name,
                place=place,
                source=f"version {version}",
                relation=FILE,
                columns=columns,
                key=unique,
                joined=[current_key or (), *(joined or ())],
            )
            return _replace(connection, uri, new, is_compared=joined is not None)


def _check_version(name: str, place: str, newest: DeltaTable, version: int) -> None:
    """Check that an older version exists and is not the current one."""
    current = int(newest.version())
    numbers = [int(entry["version"]) for entry in delta.list_commits(newest)]
    if version == current:
        msg = f"{place}: expected a version before the current one, got the current one."
    elif version not in numbers:
        existing = f"{numbers[-1]} to {current - 1}" if len(numbers) > 1 else "there are none"
        msg = f"{place}: expected a version before {current}, the current one ({existing}), got {version}."
    else:
        return
    raise DefinitionError(msg + f"\nHint: `cutover dimension show {name}` lists all.")


def _find_key(table: DeltaTable) -> tuple[str, ...] | None:
    """Find the key of a version: that of the newest load up to it; empty if it was never loaded; None if unknown."""
    entry: Mapping[str, Any] = {"version": 1}
    for entry in delta.list_commits(table):
        if _KEY in entry:
            return tuple(json.loads(entry[_KEY]))
    return () if int(entry["version"]) == 0 else None


def list_dimension_versions(settings: Settings, name: str, *, limit: int) -> list[LoadedVersion]:
    """List the newest versions of a dimension, the current one first.

    Raises:
        LakeError: The dimension does not exist or cannot be read.
    """
    check_name(name, of="Dimension")
    table = delta.open_table(own_uri(settings, name))
    return [
        LoadedVersion(
            version=int(entry["version"]),
            at=from_micros(int(entry.get("timestamp", 0)) * 1000),
            rows=_read_rows(table.table_uri, entry),
            source=entry.get(_FROM),
            key=tuple(json.loads(entry[_KEY])) if _KEY in entry else None,
        )
        for entry in islice(delta.list_commits(table), limit)
    ]


def _read_rows(uri: str, entry: Mapping[str, Any]) -> int | None:
    """Return the number of rows of a version: as its commit records it, else as its files do."""
    if ROWS in entry:
        return int(entry[ROWS])
    try:
        actions = delta.actions(delta.open_table(uri, int(entry["version"])))
    except LakeError:
        return None
    return sum(int(action["num_records"]) for action in actions)


def read_head(settings: Settings, name: str, number: int) -> pa.Table:
    """Read the first rows of the current version, in the order of their columns.

    Raises:
        LakeError: The dimension cannot be read.
    """
    table = delta.open_table(own_uri(settings, name))
    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        delta.bind(connection, FILE, table)
        with delta.naming(table):
            return queries.query_table(connection, f"SELECT * FROM {FILE} ORDER BY ALL LIMIT {int(number)}")  # noqa: S608


def _replace(connection: duckdb.DuckDBPyConnection, uri: str, new: NewRows, *, is_compared: bool) -> Loaded:
    """Write rows as the next version of a dimension; compare them with the current version if `is_compared`."""
    if is_compared:
        check_replacement(connection, delta.open_table(uri) if delta.exists(uri) else None, new)
    (rows,) = connection.execute(f"SELECT count(*) FROM {FILE}").fetchall()[0]  # noqa: S608 -- ours
    words = {ROWS: str(rows), _FROM: new.source, _KEY: json.dumps(list(new.key))}
    words |= {} if is_compared else {CONFIRMED: "true"}
    version = _write(connection, uri, new.columns, words)
    return Loaded(uri=uri, version=version, rows=int(rows), columns=new.columns)


def _read_known_types(uri: str) -> dict[str, str]:
    """Read the types of the current version's columns by name; empty if the dimension does not exist."""
    if not delta.exists(uri):
        return {}
    return {field.name: spark_type(field.type) for field in delta.read_schema(delta.open_table(uri))}


def _parquet(connection: duckdb.DuckDBPyConnection, place: str, file: Path) -> dict[str, str]:
    connection.execute(f"CREATE TEMP VIEW {FILE} AS SELECT * FROM read_parquet({literal(str(file))})")  # noqa: S608 -- quoted
    schema = queries.query_table(connection, f"SELECT * FROM {FILE} LIMIT 0").schema  # noqa: S608 -- ours
    columns = {field.name: spark_type(field.type) for field in schema}
    for column, kind in columns.items():
        if kind not in SIMPLE and parse_decimal_type(kind) is None:
            msg = f"{place}, column `{column}`: expected one of {', '.join(SIMPLE)} or a decimal, got {kind}."
            raise DefinitionError(msg)
    return columns


def _csv(
    connection: duckdb.DuckDBPyConnection, place: str, file: Path, types: Mapping[str, str], schema: str | None
) -> dict[str, str]:
    names = read_header(file)
    declared = {field.name: field.type for field in parse_schema(schema)} if schema else {}
    unknown = [name for name in declared if name not in names]
    if unknown:
        header = ", ".join(map(format_name, names))
        msg = f"{place}: expected a column `{unknown[0]}`, as the schema has it, got {header}."
        raise DefinitionError(msg)
    for name in names:
        check_name(name, of=place)
    columns = {name: declared.get(name, types.get(name, "string")) for name in names}
    connection.register(FILE, read_typed_rows(place, file, columns))
    return columns


def _check_columns(place: str, columns: Mapping[str, str], types: Mapping[str, str]) -> None:
    for name in columns:
        check_name(name, of=place)
    for name, kind in types.items():
        if columns.get(name) != kind:
            actual = columns.get(name, "no such column")
            msg = f"{place}, column `{name}`: expected {kind}, as in the previous version, got {actual}."
            raise DefinitionError(msg + "\nHint: pipelines may take it; load the file under another name.")


def _check_key(
    connection: duckdb.DuckDBPyConnection, place: str, columns: Mapping[str, str], key: Sequence[str]
) -> None:
    missing = [name for name in key if name not in columns]
    if missing:
        msg = f"{place}, `--key`: expected columns of {', '.join(columns)}, got `{missing[0]}`."
        raise DefinitionError(msg)
    if not key:
        return
    columns_sql = ", ".join(map(identifier, key))
    duplicates = f"SELECT count(*) FROM (SELECT 1 FROM {FILE} GROUP BY {columns_sql} HAVING count(*) > 1)"  # noqa: S608 -- quoted
    is_null = " OR ".join(f"{identifier(name)} IS NULL" for name in key)
    nulls = f"SELECT count(*) FROM {FILE} WHERE {is_null}"  # noqa: S608 -- quoted
    doubled, without = connection.execute(f"SELECT ({duplicates}), ({nulls})").fetchall()[0]
    if doubled or without:
        msg = f"{place}: expected each key ({', '.join(key)}) once and none null, got {doubled:,} that occur more than "
        msg += f"once and {count_noun(without, 'row')} with a null.\nHint: nothing was written. "
        raise DefinitionError(msg + "Without `--key`, the key of the previous version is used; `--key ''` means none.")


def _write(connection: duckdb.DuckDBPyConnection, uri: str, columns: Mapping[str, str], words: dict[str, str]) -> int:
    schema = pa.schema([pa.field(name, map_spark_type_to_arrow(kind)) for name, kind in columns.items()])
    reader = connection.sql(f"SELECT * FROM {FILE}").to_arrow_reader()  # noqa: S608 -- ours
    rows = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in reader))
    commit = CommitProperties(custom_metadata=words)
    with commits.converting_write_errors(uri):
        add_action = data_files.stream_data_file(uri, rows, checksums.new_stem("loaded"))
        table_schema = Schema.from_arrow(schema)
        if delta.exists(uri):  # all files of the previous version are replaced, and its schema may gain columns
            commits.overwrite(delta.open_table(uri), [add_action], table_schema, commit=commit)
        else:
            commits.create_table(
                uri, [add_action], table_schema, configuration={**delta.CONFIGURATION, **RETENTION}, commit=commit
            )
    return int(delta.open_table(uri).version())

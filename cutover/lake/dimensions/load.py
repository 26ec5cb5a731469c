"""Versions of the lake's own dimensions: a file, or an older version, becomes the newest in one checked commit."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema

from cutover.definition.model.topic import SIMPLE, check_name, parse_decimal_type, parse_schema
from cutover.engine import queries
from cutover.errors import DefinitionError, LakeError
from cutover.lake.dimensions import csv_rows
from cutover.lake.dimensions.dimension import own_uri
from cutover.lake.dimensions.shrinkage import NewRows, check_replacement
from cutover.lake.tables import checksums, commits, data_files, delta
from cutover.lake.tables.schemas import arrow_type, spark_type
from cutover.quoting import identifier, literal
from cutover.records.files.cells import show_name
from cutover.settings import Settings
from cutover.timestamps import from_micros

KEPT = {"delta.logRetentionDuration": "interval 30 days", "delta.deletedFileRetentionDuration": "interval 30 days"}
"""How long older versions can be read: as long as records that were joined with them may be joined again."""

FILE = "file"
_ROWS, _FROM, _KEY = "cutover.rows", "cutover.from", "cutover.key"
"""Keys in the words of a commit: how many rows the version has, where they came from, and which columns are unique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was written."""

    uri: str
    version: int
    rows: int
    columns: Mapping[str, str]  # name -> type


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """One version of a dimension, as its table's log tells of it."""

    version: int
    at: datetime
    rows: int | None  # None: its files are gone
    source: str | None  # the file's name, or the version that was gone back to; None: another writer's
    key: tuple[str, ...] | None  # columns whose values were checked to be unique; None: another writer's


def load(
    settings: Settings,
    name: str,
    file: Path,
    *,
    key: Sequence[str] | None = None,
    schema: str | None = None,
    joined: Sequence[Sequence[str]] | None = (),
) -> Loaded:
    """Replace a dimension by what a file holds.

    Args:
        settings: Where the lake lies.
        name: Of the dimension.
        file: `.parquet`, or CSV with a header (also packed).
        key: Columns whose values must be unique and not null. None: those of the version before.
        schema: Types of the CSV's columns, such as `ad_id string, budget decimal(10,2)`. Of a column that it does not
            name: as in the version before, else text. Empty cells are null.
        joined: Columns by which pipelines join the dimension, a tuple each: their values are expected to stay. None:
            it may be empty, or lack anything that the version before holds.

    Raises:
        DefinitionError: The name, the file, its columns, their types or the key do not fit, it lacks much of what the
            version before holds, or the key of that version is not known; nothing was written.
        LakeError: The table cannot be read or written.
    """
    check_name(name, of="Dimension")
    uri = own_uri(settings, name)
    known = _read_known_types(uri)
    with queries.connect(queries.reading(settings)) as connection:
        place = f"Dimension `{name}`, file `{file}`"
        try:
            columns = _parquet(connection, place, file) if file.suffix == ".parquet" else None
            columns = columns or _csv(connection, place, file, known, schema)
            _check_columns(place, columns, known)
            before = _find_key(delta.open_table(uri)) if delta.exists(uri) else ()
            unique = before if key is None else tuple(key)
            if unique is None:
                msg = f"{place}: expected the key of the version in force in the table's log, which no longer reaches "
                msg += "back to its load.\nHint: nothing was written; name the key: "
                raise DefinitionError(msg + "`--key COLUMNS`, or `--key ''` if there is none.")
            _check_key(connection, place, columns, unique)
            new = NewRows(
                dimension=name,
                place=place,
                source=file.name,
                relation=FILE,
                columns=columns,
                key=unique,
                joined=[before or (), *(joined or ())],
            )
            loaded = _replace(connection, uri, new, is_compared=joined is not None)
        except duckdb.Error as error:
            msg = f"{place}: expected a CSV or Parquet file that can be read, got: {queries.describe_error(error)}"
            raise DefinitionError(msg) from error
    return loaded


def roll_back(settings: Settings, name: str, version: int, *, joined: Sequence[Sequence[str]] | None = ()) -> Loaded:
    """Make the rows of an older version of a dimension its newest version again; `joined` is as in `load`.

    Its key is that of the version, else that of the version in force.

    Raises:
        DefinitionError: There is no such version, it is the one in force, its key is not unique, or it lacks a column
            or much of what the version in force holds.
        LakeError: The files of the version are gone.
    """
    check_name(name, of="Dimension")
    uri = own_uri(settings, name)
    newest = delta.open_table(uri)
    place = f"Dimension `{name}`, version {version}"
    _check_version(name, place, newest, version)
    older = delta.open_table(uri, version)
    columns = {field.name: spark_type(field.type) for field in delta.read_schema(older)}
    _check_columns(place, columns, _read_known_types(uri))
    with queries.connect(queries.reading(settings)) as connection:
        delta.bind(connection, FILE, older)
        with delta.naming(older):
            before, own = _find_key(newest), _find_key(older)
            unique = own or (before if joined is not None else ())
            if unique is None:
                msg = f"{place}: expected the key of a load before it in the table's log, which no longer reaches back "
                msg += "to one.\nHint: nothing was written; `--confirm` puts it in force without a comparison."
                raise DefinitionError(msg)
            _check_key(connection, place, columns, unique)
            new = NewRows(
                dimension=name,
                place=place,
                source=f"version {version}",
                relation=FILE,
                columns=columns,
                key=unique,
                joined=[before or (), *(joined or ())],
            )
            return _replace(connection, uri, new, is_compared=joined is not None)


def _check_version(name: str, place: str, newest: DeltaTable, version: int) -> None:
    """Reject a version that does not exist, or that is in force."""
    current = int(newest.version())
    numbers = [int(entry["version"]) for entry in delta.history(newest)]
    if version == current:
        msg = f"{place}: expected a version before the one in force, got that one."
    elif version not in numbers:
        others = f"{numbers[-1]} to {current - 1}" if len(numbers) > 1 else "there is none"
        msg = f"{place}: expected a version before {current}, the one in force ({others}), got {version}."
    else:
        return
    raise DefinitionError(msg + f"\nHint: `cutover dimension show {name}` lists all.")


def _find_key(table: DeltaTable) -> tuple[str, ...] | None:
    """Find the key of a version: that of the newest load up to it; none if it was never loaded; None if unknown."""
    entry: Mapping[str, Any] = {"version": 1}
    for entry in delta.history(table):
        if _KEY in entry:
            return tuple(json.loads(entry[_KEY]))
    return () if int(entry["version"]) == 0 else None


def list_versions(settings: Settings, name: str, *, most: int) -> list[LoadedVersion]:
    """Return the newest versions of a dimension, the one in force first.

    Raises:
        LakeError: There is no such dimension, or it cannot be read.
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
        for entry in islice(delta.history(table), most)
    ]


def _read_rows(uri: str, entry: Mapping[str, Any]) -> int | None:
    """Return the rows of a version: as its commit says, else as its files do."""
    if _ROWS in entry:
        return int(entry[_ROWS])
    try:
        listed = delta.actions(delta.open_table(uri, int(entry["version"])))
    except LakeError:
        return None
    return sum(int(action["num_records"]) for action in listed)


def read_head(settings: Settings, name: str, number: int) -> pa.Table:
    """Return the first rows of the version in force, in the order of their columns.

    Raises:
        LakeError: It cannot be read.
    """
    table = delta.open_table(own_uri(settings, name))
    with queries.connect(queries.reading(settings)) as connection:
        delta.bind(connection, FILE, table)
        with delta.naming(table):
            return queries.read_table(connection, f"SELECT * FROM {FILE} ORDER BY ALL LIMIT {int(number)}")  # noqa: S608


def _replace(connection: duckdb.DuckDBPyConnection, uri: str, new: NewRows, *, is_compared: bool) -> Loaded:
    """Write rows as the next version of a dimension, compared with the one in force if that is asked for."""
    if is_compared:
        check_replacement(connection, delta.open_table(uri) if delta.exists(uri) else None, new)
    (rows,) = connection.execute(f"SELECT count(*) FROM {FILE}").fetchall()[0]  # noqa: S608 -- ours
    words = {_ROWS: str(rows), _FROM: new.source, _KEY: json.dumps(list(new.key))}
    version = _write(connection, uri, new.columns, words)
    return Loaded(uri=uri, version=version, rows=int(rows), columns=new.columns)


def _read_known_types(uri: str) -> dict[str, str]:
    """Return name to type of the version before; nothing where there is none."""
    if not delta.exists(uri):
        return {}
    return {field.name: spark_type(field.type) for field in delta.read_schema(delta.open_table(uri))}


def _parquet(connection: duckdb.DuckDBPyConnection, place: str, file: Path) -> dict[str, str]:
    connection.execute(f"CREATE TEMP VIEW {FILE} AS SELECT * FROM read_parquet({literal(str(file))})")  # noqa: S608 -- quoted
    schema = queries.read_table(connection, f"SELECT * FROM {FILE} LIMIT 0").schema  # noqa: S608 -- ours
    columns = {field.name: spark_type(field.type) for field in schema}
    for column, kind in columns.items():
        if kind not in SIMPLE and parse_decimal_type(kind) is None:
            msg = f"{place}, column `{column}`: expected one of {', '.join(SIMPLE)} or a decimal, got {kind}."
            raise DefinitionError(msg)
    return columns


def _csv(
    connection: duckdb.DuckDBPyConnection, place: str, file: Path, known: Mapping[str, str], schema: str | None
) -> dict[str, str]:
    names = csv_rows.read_header(file)
    given = {field.name: field.type for field in parse_schema(schema)} if schema else {}
    unknown = [name for name in given if name not in names]
    if unknown:
        msg = (
            f"{place}: expected a column `{unknown[0]}`, as the schema has it, got {', '.join(map(show_name, names))}."
        )
        raise DefinitionError(msg)
    for name in names:
        check_name(name, of=place)
    columns = {name: given.get(name, known.get(name, "string")) for name in names}
    connection.register(FILE, csv_rows.read_typed_rows(place, file, columns))
    return columns


def _check_columns(place: str, columns: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name in columns:
        check_name(name, of=place)
    for name, kind in known.items():
        if columns.get(name) != kind:
            got = columns.get(name, "no such column")
            msg = f"{place}, column `{name}`: expected {kind}, as the version before has it, got {got}."
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
    named = ", ".join(map(identifier, key))
    twice = f"SELECT count(*) FROM (SELECT 1 FROM {FILE} GROUP BY {named} HAVING count(*) > 1)"  # noqa: S608 -- quoted
    absent = " OR ".join(f"{identifier(name)} IS NULL" for name in key)
    nulls = f"SELECT count(*) FROM {FILE} WHERE {absent}"  # noqa: S608 -- quoted
    doubled, without = connection.execute(f"SELECT ({twice}), ({nulls})").fetchall()[0]
    if doubled or without:
        msg = f"{place}: expected each key ({', '.join(key)}) once and none null, got {doubled:,} that stand more than "
        msg += f"once and {without:,} rows with a null.\nHint: nothing was written. "
        raise DefinitionError(
            msg + "Without `--key`, the key of the version before counts; `--key ''` stands for none."
        )


def _write(connection: duckdb.DuckDBPyConnection, uri: str, columns: Mapping[str, str], words: dict[str, str]) -> int:
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns.items()])
    reader = connection.sql(f"SELECT * FROM {FILE}").to_arrow_reader()  # noqa: S608 -- ours
    rows = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in reader))
    commit = CommitProperties(custom_metadata=words)
    with commits.refusing(uri):
        made, own = data_files.stream(uri, rows, checksums.new_stem("loaded")), Schema.from_arrow(schema)
        if delta.exists(uri):  # all files that the version before lists go with it, and its schema may gain columns
            commits.overwrite(delta.open_table(uri), [made], own, commit=commit)
        else:
            commits.create(uri, [made], own, configuration={**delta.CONFIGURATION, **KEPT}, commit=commit)
    return int(delta.open_table(uri).version())

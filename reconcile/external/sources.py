"""Tables that Cutover did not make: Delta folders, Parquet and CSV, as views of one connection."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape, glob, has_magic
from itertools import count
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from cutover.engine.queries import describe_error
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier, literal
from cutover.reconcile.external.csv_dialect import CSV, Dialect, is_csv
from cutover.reconcile.external.reading import Reading, choose_reading, folder_values

STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "file", "memory")
READ = f"a Delta folder, Parquet, or CSV ({', '.join(CSV)}): a file, a folder or a glob"
_PARQUET = b"PAR1"
_AT_VERSION = re.compile(r"(?P<place>.+)@v(?P<version>[0-9]{1,18})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSource:
    """Location and columns of the rows of one side."""

    name: str  # absolute, of a table on this machine
    raw: str  # view of its columns
    view: str  # of its columns, and the one of files
    types: Mapping[str, str]  # of its columns, in order
    file_column: str | None = None  # None: in an object store, read as one
    paths: Mapping[str, str] = field(default_factory=dict)  # of its files: as the view has them, as its table has
    optional: Mapping[str, bool] = field(default_factory=dict)  # column -> may hold nulls, where the schema says so
    partition_values: Mapping[str, str] = field(
        default_factory=dict
    )  # path in `paths` -> values that rows have from its folder or partition
    untyped: frozenset[str] = frozenset()  # columns of texts without a type: cells of CSV, values in folder names
    dialect: Mapping[str, str] = field(default_factory=dict)  # of CSV: delimiter, quote, header, encoding, null
    unreadable: Mapping[str, str] = field(
        default_factory=dict
    )  # column -> its type, that the engine would read wrongly
    reading: str = ""  # all by which the texts of `untyped` become values


def bind_source(
    connection: duckdb.DuckDBPyConnection, view: str, source: str, dialect: Dialect | None = None
) -> SideSource:
    """Bind a view to a Delta table (its newest version, or that of `table@v7`), to Parquet, or to CSV.

    Cells of CSV and values in names of folders are texts here: `untyped`.

    Raises:
        DefinitionError: The table does not exist, or it is none of these.
        LakeError: A file is missing or cannot be read.
    """
    by_file = f"{view}_by_file"
    place, version = _parse_version(source)
    _reject_address(source)
    if "://" in source or (Path(place) / "_delta_log").is_dir():
        return _bind_delta(connection, view, place if "://" in place else str(Path(place).absolute()), version)
    files = _list_files(source)
    has_text = is_csv(files[0])
    try:
        reading = choose_reading(connection, source, files, dialect or Dialect())
        column = _bind_files(connection, by_file, reading)
        types = _select_columns(connection, by_file, (column, *reading.aside), view)
    except duckdb.Error as error:
        msg = f"Table `{source}`: expected {'CSV' if has_text else 'Parquet'}, got: {describe_error(error)}"
        raise LakeError(msg, runbook="TableUnreadable") from None
    return SideSource(
        name=str(Path(source).absolute()),
        raw=view,
        view=by_file,
        types=types,
        file_column=column,
        paths={file: Path(file).name for file in files},
        optional=reading.optional,
        partition_values=folder_values(reading, files),
        untyped=frozenset(name for name in types if has_text or name.lower() in reading.folders),
        dialect=reading.dialect,
        unreadable=reading.unreadable,
    )


def _reject_address(source: str) -> None:
    """Refuse addresses of anything but object stores, without what may be a password in them.

    Raises:
        DefinitionError: It is one of these, or holds a user or a password.
    """
    scheme, separator, location = source.partition("://")
    user = location.partition("/")[0].rpartition("@")[0]  # of abfss:// the name of a container, without a password
    if separator and (scheme.lower() not in STORES or ":" in user):
        msg = f"Table `{scheme[:20]}://...`: expected {READ}, or a Delta table in an object store"
        msg += f" ({', '.join(f'{store}://' for store in STORES)}) without a password in its address."
        raise DefinitionError(msg + "\nHint: export the table to Parquet; credentials belong into the environment.")


def _bind_files(connection: duckdb.DuckDBPyConnection, view: str, reading: Reading) -> str:
    """Bind a view to files with a further column, the file of each row; return a free name for it."""
    existing_columns: set[str] = set()
    while True:
        column = _free_name(existing_columns)
        files_sql = reading.sql(f", filename = {literal(column)}")
        try:
            connection.execute(f"CREATE TEMP VIEW {identifier(view)} AS FROM {files_sql}")
        except duckdb.BinderException:
            described_columns = connection.execute(f"DESCRIBE FROM {reading.sql()}").fetchall()
            if column.lower() not in {str(row[0]).lower() for row in described_columns} or existing_columns:
                raise
            existing_columns = {str(row[0]) for row in described_columns}
        else:
            return column


def _select_columns(
    connection: duckdb.DuckDBPyConnection, by_file: str, aside: Iterable[str], view: str
) -> dict[str, str]:
    """Make a view without some columns, such as that of files; return its types."""
    without = ", ".join(map(identifier, aside))
    connection.execute(
        f"CREATE TEMP VIEW {identifier(view)} AS SELECT * EXCLUDE ({without}) FROM {identifier(by_file)}"
    )
    return types_of(connection, view)


def _free_name(existing_columns: Collection[str]) -> str:
    """Return a name for the column of files that no column of a table has."""
    lower = {name.lower() for name in existing_columns}
    return next(name for n in count() if (name := "_" * n + "_file_of_row") not in lower)


def _read_optional(table: DeltaTable) -> dict[str, bool]:
    return {field.name: bool(field.nullable) for field in delta.read_schema(table)}


def _bind_delta(connection: duckdb.DuckDBPyConnection, view: str, uri: str, version: int | None) -> SideSource:
    table = delta.open_table(uri)
    if version is not None and version > table.version():
        msg = f"Table `{uri}`: expected a version up to {table.version()}, got {version}."
        raise DefinitionError(msg)
    table = table if version is None else delta.open_table(uri, version)
    if "" in delta.read_schema(table).names:
        msg = f"Table `{uri}`: expected columns with names, got one without."
        raise DefinitionError(msg + "\nHint: export the table to Parquet.")
    root = delta.local_root(table)
    if root is None:
        delta.bind(connection, view, table)
        return SideSource(name=uri, raw=view, view=view, types=types_of(connection, view))
    column, by_file = _free_name(delta.read_schema(table).names), f"{view}_by_file"
    delta.bind(connection, by_file, table, file_column=column)
    actions = {str(delta.file_path(root, action)): action for action in delta.actions(table)}
    return SideSource(
        name=str(root),
        raw=view,
        view=by_file,
        types=_select_columns(connection, by_file, (column,), view),
        file_column=column,
        paths={path: str(action["path"]) for path, action in actions.items()},
        optional=_read_optional(table),
        partition_values={path: text for path, action in actions.items() if (text := _describe_partition(action))},
    )


def _describe_partition(action: Mapping[str, object]) -> str:
    """Return the values of the partition that a file is listed under; empty where there is none."""
    values = sorted((name, repr(value)) for name, value in action.items() if name.startswith("partition."))
    return repr(values) if values else ""


def _parse_version(source: str) -> tuple[str, int | None]:
    """Take `table@v7` apart, as Delta's own readers do; a folder that is called so is meant itself."""
    match = _AT_VERSION.fullmatch(source)
    if match is None or Path(source).exists():
        return source, None
    return match["place"], int(match["version"])


def _list_files(source: str) -> list[str]:
    path = Path(source)
    if path.is_file():
        _reject_kind(source, path)
        _reject_delta_files(source, [source])
        return [source]
    is_pattern = has_magic(source) and not path.is_dir()
    pattern = source if is_pattern else f"{escape(str(path))}/**/*"
    paths = sorted(glob(pattern, recursive=True))  # noqa: PTH207 -- a pattern with its folder, as a shell takes it
    files = [
        file for file in paths if is_pattern or (_is_of_table(Path(file).relative_to(path)) and Path(file).is_file())
    ]
    if not files:
        suffixes = sorted({"".join(Path(file).suffixes[-2:]) for file in paths if Path(file).is_file()} - {""})
        contents = f"files of other kinds: {', '.join(suffixes[:5])}" if suffixes else "nothing"
        msg = f"Table `{source}`: expected {READ}, found {contents}."
        raise DefinitionError(msg)
    if len({is_csv(file) for file in files}) > 1:
        msg = f"Table `{source}`: expected files of one kind, got Parquet and CSV."
        raise DefinitionError(msg)
    _reject_delta_files(source, files)
    return files


def _reject_kind(source: str, path: Path) -> None:
    """Refuse a file that is neither CSV by its name nor Parquet by its first bytes."""
    if is_csv(path.name) or path.name.lower().endswith(".parquet"):
        return
    with path.open("rb") as stream:
        start = stream.read(len(_PARQUET))
    if start != _PARQUET:
        msg = f"Table `{source}`: expected {READ}, got `{path.name}`."
        raise DefinitionError(msg + "\nHint: convert it; text with a delimiter is read once its name ends in .csv.")


def _is_of_table(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", *CSV)) and not _is_hidden(path)


def _is_hidden(path: Path) -> bool:
    """Return whether Spark and its kin pass a file over: what is under way, or about the others."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.parts)


def _reject_delta_files(source: str, files: Sequence[str]) -> None:
    folders = {folder for parent in {Path(file).parent for file in files} for folder in (parent, *parent.parents)}
    delta_folders = sorted(folder for folder in folders if (folder / "_delta_log").is_dir())
    if delta_folders:
        msg = f"Table `{source}`: expected Parquet files, got those of the Delta table `{delta_folders[0]}`."
        raise DefinitionError(msg + "\nHint: name its folder; among its files are some that it no longer lists.")


def describe_optional(names: Mapping[str, str], expected: SideSource, actual: SideSource) -> tuple[str, ...]:
    """Return a note for each common column that may hold nulls on one side only, by what both schemas say.

    Args:
        names: Column, to its name on the actual side.
        expected: The trusted side.
        actual: The judged one.
    """
    notes = []
    for ours, name in names.items():
        may, might = expected.optional.get(ours), actual.optional.get(name)
        if may is not None and might is not None and may != might:
            nullable_side, strict_side = ("expected", "actual") if may else ("actual", "expected")
            notes.append(
                f"Column `{ours}` may hold nulls on the {nullable_side} side, and none on the {strict_side} side."
            )
    return tuple(notes)


def types_of(connection: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
    """Return the columns of a view with their DuckDB types, in order."""
    relation = connection.table(identifier(view))  # DESCRIBE returns more than 2,048 columns in no order
    return {name: str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}

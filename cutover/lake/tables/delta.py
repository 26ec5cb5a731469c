"""Delta tables without a JVM: created and opened by delta-rs; read by DuckDB from the files that the log lists."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from cutover.engine import queries, storage
from cutover.errors import LakeError, summarize_error
from cutover.lake.tables import checksums, delta_log
from cutover.lake.tables.schemas import (
    Partition,
    list_column_names,
    nothing,
    read_file_schema,
    select_columns,
    select_rows_sql,
)
from cutover.quoting import identifier

CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
}

SHORT_LOG = {"delta.logRetentionDuration": "interval 10 minutes"}
"""For a table with constant commits that is not read by version: every log file makes commits slower."""


class TableLogError(LakeError):
    """An entry of a table's log is missing, empty or was changed; `sentence` names it."""

    def __init__(self, uri: str, damage: str) -> None:
        self.sentence = f"`{uri}`: expected every entry of its table log to be whole, got {damage}."
        super().__init__(f"Table {self.sentence}", runbook="TableUnreadable")


_AMBIGUOUS = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\]")


def check_folder_name(uri: str) -> None:
    """Reject a folder that delta-rs would open under another name, because it decodes a path like a URI.

    Raises:
        LakeError: The name has a bracket, a backslash, or `%` with two digits.
    """
    match = None if storage.is_object_store(uri) else _AMBIGUOUS.search(uri)
    if match is not None:
        msg = f"Table `{uri}`: expected a folder without brackets, backslash and `%` with two digits, got `{match[0]}`."
        raise LakeError(msg + "\nHint: choose another name for the folder of the lake.")


def exists(uri: str) -> bool:
    """Return whether a Delta table lies at `uri`.

    Raises:
        LakeError: The place cannot be read, its log has no entry that is a file, or delta-rs cannot open a folder of
            this name.
    """
    check_folder_name(uri)
    try:
        if DeltaTable.is_deltatable(uri):
            return True
        _reject_damaged(uri, read=False)  # without a readable entry: no table for delta-rs
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a folder of a table or none, got: {summarize_error(error)}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return False


def open_table(uri: str, version: int | None = None, *, reads_rows: bool = True) -> DeltaTable:
    """Open a table, at a version if given; without `reads_rows` for its log alone.

    Raises:
        LakeError: The table does not exist, its log is damaged, or its files alone do not determine its rows.
    """
    check_folder_name(uri)
    try:
        table = DeltaTable(uri, version=version)
    except TableNotFoundError as error:
        _reject_damaged(uri, read=False)
        msg = f"Table `{uri}`: expected a Delta table, found none."
        raise LakeError(msg, runbook="TableUnreadable") from error
    except (DeltaError, OSError) as error:
        if isinstance(error, DeltaError):
            _reject_damaged(uri, read=True)
        at = "" if version is None else f" at version {version}"
        msg = f"Table `{uri}`{at} cannot be opened: {summarize_error(error)}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    _reject_damaged(uri, read=False)
    if reads_rows:
        _check_readable(table)
    return table


def read_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table at the version that the handle shows, including partition columns."""
    columns: Any = table.schema().to_arrow()  # of another library: Arrow takes it over by the C interface
    return pa.schema(columns)


def transaction(table: DeltaTable, app_id: str) -> int | None:
    """Return the number of the newest commit that carries an application id; None: no commit does.

    Raises:
        LakeError: The transaction in the table's log is damaged, which opening a table does not detect.
    """
    with _converting_errors(table):
        number = table.transaction_version(app_id)
    return None if number is None else int(number)


def list_commits(table: DeltaTable, *, after: int = -1) -> Iterator[dict[str, Any]]:
    """Yield the metadata of the commits up to a handle's version, newest first, with the `version` of each.

    It ends at the first commit that the table's log no longer has, or at `after`, exclusive. The history of delta-rs is
    not used: it lists the newest existing commits, and numbers them from the handle's version down.
    """
    for version in range(int(table.version()), after, -1):
        entry = delta_log.read_entry(table.table_uri, version)
        if entry is None:
            return
        yield {**delta_log.info(entry), "version": version}


@contextmanager
def _converting_errors(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except DeltaError as error:
        msg = f"Table `{local_root(table) or table.table_uri}`: expected a log that can be read, got: "
        raise LakeError(msg + f"{str(error).splitlines()[0]}.", runbook="TableUnreadable") from error


def reject_damaged_log(uri: str) -> None:
    """Reject a table whose log holds an entry that was changed after its commit, before its rows are blamed.

    Raises:
        TableLogError: Names the entry.
    """
    _reject_damaged(uri, read=True)


def _reject_damaged(uri: str, *, read: bool) -> None:
    """Reject a table that delta-rs cannot open, or opens at an older version without an error."""
    broken = delta_log.find_damage(uri, read=read)
    if broken is not None:
        raise TableLogError(uri, f"`{broken.file}`, which {broken.what}")


def _check_readable(table: DeltaTable) -> None:
    """Reject features that a reader of listed files would misread, such as deletion vectors and column mapping."""
    features = delta_log.list_unread_features(table)
    if features:
        names = ", ".join(features)
        msg = (
            f"Table `{table.table_uri}`: expected a table whose files hold its rows as they are, got one with {names}."
        )
        hint = "\nHint: write a copy without it (CREATE TABLE ... AS SELECT), and read that."
        raise LakeError(msg + hint, runbook="TableUnreadable")


def local_root(table: DeltaTable) -> Path | None:
    """Return the folder of a table on this machine, decoded from the URI of the handle; None for an object store."""
    uri = table.table_uri.removeprefix("file://")
    return None if "://" in uri else Path(unquote(uri))


def file_path(root: Path, action: Mapping[str, Any]) -> Path:
    """Return the file of an add action, whose path in the log is URL-encoded."""
    return root / unquote(action["path"])


def ensure(
    uri: str, schema: pa.Schema, *, partition_by: Sequence[str] = (), configuration: Mapping[str, str] = CONFIGURATION
) -> DeltaTable:
    """Open the table at `uri`, and create it first if it does not exist.

    Args:
        uri: Location of the table.
        schema: Schema of a new table.
        partition_by: Partition columns of a new table.
        configuration: Properties of a new table, in addition to `CONFIGURATION`.

    Raises:
        LakeError: The table cannot be created or opened.
    """
    if exists(uri):
        return open_table(uri)
    try:
        return DeltaTable.create(
            uri,
            schema,
            partition_by=list(partition_by),
            configuration={**CONFIGURATION, **configuration},
            # With retries, the slower of two processes would overwrite the table of the other one.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except (DeltaError, OSError) as error:
        if exists(uri):
            return open_table(uri)
        msg = f"Table `{uri}`: expected a place where tables can be created, got: {str(error).splitlines()[0]}."
        hint = "\nHint: check `lake` and `home` in the settings, and the folder's owner."
        raise LakeError(msg + hint) from error


def relation(connection: duckdb.DuckDBPyConnection, view: str, uri: str, *, version: int | None = None) -> int:
    """Bind a view to one version of a table and return that version.

    Raises:
        LakeError: The table or one of its files is missing.
    """
    return bind(connection, view, open_table(uri, version))


def bind(
    connection: duckdb.DuckDBPyConnection,
    view: str,
    table: DeltaTable,
    *,
    kinds: Collection[str] | None = None,
    paths: Collection[str] | None = None,
    file_column: str | None = None,
) -> int:
    """Bind a view to the version that a handle shows and return that version; each file's bytes are checked first.

    Args:
        connection: Connection of the view.
        view: Name of the view.
        table: The handle.
        kinds: Values of the partition column `_kind` whose files are read; None: all.
        paths: Paths in the log of the files that are read; None: all.
        file_column: Further column of the view, for a table on this machine: the path of each row's file.

    Raises:
        FileDamagedError: A file does not exist, or does not hold the bytes that were committed.
        TableLogError: The first file that Cutover wrote has a column that the table's schema lacks.
    """
    schema = read_schema(table)
    root = local_root(table)
    listed_actions = [action for action in _list_actions(table, kinds) if paths is None or action[1]["path"] in paths]
    check_listed_files(table, [action for _, action in listed_actions])
    own_path = next((str(action["path"]) for _, action in listed_actions if checksums.parse_name(action["path"])), None)
    if own_path is not None:
        _check_columns(connection, table, schema, own_path)
    if root is None:
        selects = _remote_selects(connection, view, table, schema, listed_actions)
    else:
        selects = [
            select_rows_sql(schema, files, partition, file_column=file_column)
            for partition, files in _files(root, listed_actions).items()
        ]
    further = "" if file_column is None else f", CAST(NULL AS VARCHAR) AS {identifier(file_column)}"
    body = " UNION ALL ".join(selects) or nothing(schema, further)
    with naming(table):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(view)} AS {body}")
    return int(table.version())


def check_listed_files(table: DeltaTable, actions: Sequence[Mapping[str, Any]]) -> None:
    """Check that listed files of a table hold the bytes that were committed.

    Raises:
        FileDamagedError: Names the first file that does not.
    """
    system, root = folder_of(table)
    place = f"Table `{root}`, version {table.version()}"
    for action in actions:
        path = str(action["path"])
        try:
            checksums.check_stored_file(system, root, path, place=place)
        except checksums.FileDamagedError as error:
            raise error.describe_contents(describe_contents(table, path)) from error


def _check_columns(connection: duckdb.DuckDBPyConnection, table: DeltaTable, schema: pa.Schema, path: str) -> None:
    """Reject a schema that was changed in the log: a renamed column would be read as null."""
    root = local_root(table)
    if root is None:
        from pyarrow import dataset  # noqa: PLC0415 -- imports pandas; a lake in an object store only

        system, folder = storage.resolve_uri(table.table_uri)
        file_schema = dataset.dataset(f"{folder}/{unquote(path)}", filesystem=system, format="parquet").schema
    else:
        with naming(table):
            file_schema = read_file_schema(connection, str(file_path(root, {"path": path})))
    undeclared = set(list_column_names(file_schema)) - set(list_column_names(schema))
    if undeclared:
        raise TableLogError(
            str(root or table.table_uri), f"a schema without `{min(undeclared)}`, a column of file `{path}`"
        )


def describe_contents(table: DeltaTable, path: str) -> str:
    """Describe the epochs and windows of a listed file, from the table's log; empty if the log does not have them."""
    with queries.open_duckdb() as connection:
        connection.register("listed", pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all())
        columns = {str(row[0]) for row in connection.execute("DESCRIBE listed").fetchall()}
        contents = []
        for subject, column in (("epochs", "_epoch"), ("windows", "window_start")):
            if {f"min.{column}", f"max.{column}"} <= columns:
                bounds = f'"min.{column}"::VARCHAR, "max.{column}"::VARCHAR'
                row = connection.execute(f"SELECT {bounds} FROM listed WHERE path = ?", [path]).fetchone()  # noqa: S608
                if row is not None and row[0] is not None:
                    contents.append(f"{subject} {row[0]} to {row[1]}")
    return ", ".join(contents)


def folder_of(table: DeltaTable) -> tuple[fs.FileSystem, str]:
    """Return file system and root folder of a table, for pyarrow."""
    root = local_root(table)
    return storage.resolve_uri(table.table_uri) if root is None else (fs.LocalFileSystem(), str(root))


def _check_partition(table: DeltaTable, action: Mapping[str, Any]) -> None:
    """Check that a file of Cutover is listed under the partition values of its folder.

    A log entry has no checksum, but the path of a file contains both: the checksum of the bytes, and the partition
    values. So a changed value cannot hide a file from readers of one partition.
    """
    path = str(action["path"])
    name = checksums.parse_name(path)
    if name is None:
        return
    values = {k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")}
    listed_folder = "/".join(f"{column}={value}" for column, value in values.items())
    if name.folder != listed_folder:
        msg = f"Table `{local_root(table) or table.table_uri}`, version {table.version()}: file `{path}`: expected it "
        msg += f"to be listed as `{name.folder or 'no partition'}`, got `{listed_folder or 'none'}`."
        raise checksums.FileDamagedError(
            msg + "\nHint: its folder has the former; an entry of the table's log was changed.", file=path
        )


@contextmanager
def naming(*read: DeltaTable) -> Iterator[None]:
    """Convert the failure of a query into an error that names the file of these tables that cannot be read, if any.

    Raises:
        LakeError: Names table, version and file. Other failures are raised unchanged.
    """
    try:
        yield
    except duckdb.Error as error:
        for table in read:
            action = find_damaged(table)
            if action is not None:
                msg = (
                    f"Table `{local_root(table)}`, version {table.version()}: file `{action['path']}` cannot be read: "
                )
                raise LakeError(msg + f"{str(error).splitlines()[0]}.", runbook="TableUnreadable") from error
        raise


def actions(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the files that a handle lists: path, size, `partition._kind`, `min._epoch`, ...

    Columns of times are left out, except partition values, which are texts.

    Raises:
        FileDamagedError: A file is listed under other partition values than those of its folder.
    """
    # Neither `pa.table` nor a time in a list: both import pandas, which takes half a second.
    rows = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.name.startswith("partition."):
            rows = rows.set_column(place, field.name, rows[field.name].cast(pa.string()))
    files: list[dict[str, Any]] = rows.select(
        [f.name for f in rows.schema if not pa.types.is_timestamp(f.type)]
    ).to_pylist()
    for action in files:
        _check_partition(table, action)
    return files


def find_damaged(table: DeltaTable) -> dict[str, Any] | None:
    """Find the add action of the first file that cannot be read completely; reads all files."""
    root = local_root(table)
    if root is None:
        return None
    schema = read_schema(table)
    with queries.open_duckdb() as connection:
        for action in actions(table):
            in_path = {k.removeprefix("partition.") for k in action if k.startswith("partition.")}
            columns = pa.schema([field for field in schema if field.name not in in_path])
            query = select_rows_sql(columns, [str(file_path(root, action))])
            try:
                connection.execute(f"SELECT bit_xor(hash(t)) FROM ({query}) t").fetchall()  # noqa: S608 -- quoted
            except duckdb.Error:
                return dict(action)
    return None


def _files(root: Path, listed_actions: Sequence[tuple[Partition, dict[str, Any]]]) -> dict[Partition, list[str]]:
    """Return the paths of listed files by their partition values."""
    groups: dict[Partition, list[str]] = {}
    for partition, action in listed_actions:
        groups.setdefault(partition, []).append(str(file_path(root, action)))
    return groups


def paths(table: DeltaTable) -> list[str]:
    """Return the paths of the files that a handle lists, as its log has them."""
    return [str(action["path"]) for action in actions(table)]


def _list_actions(table: DeltaTable, kinds: Collection[str] | None) -> Iterator[tuple[Partition, dict[str, Any]]]:
    for action in actions(table):
        values = tuple((k.removeprefix("partition."), v) for k, v in action.items() if k.startswith("partition."))
        if kinds is None or dict(values).get("_kind") in kinds:
            yield values, action


def _remote_selects(
    connection: duckdb.DuckDBPyConnection,
    view: str,
    table: DeltaTable,
    schema: pa.Schema,
    listed_actions: Sequence[tuple[Partition, dict[str, Any]]],
) -> list[str]:
    """Register the files of a table in an object store by their partition values; return the queries of their rows.

    The dataset of delta-rs is not used: if a file has statistics of some columns only, it prunes wrongly by the others.
    """
    from pyarrow import dataset  # noqa: PLC0415 -- imports pandas; a lake in an object store only

    system, folder = storage.resolve_uri(table.table_uri)
    groups: dict[Partition, list[str]] = {}
    for partition, action in listed_actions:
        groups.setdefault(partition, []).append(f"{folder}/{unquote(action['path'])}")
    selects = []
    for number, (partition, paths) in enumerate(groups.items()):
        file_schema = pa.schema([f for f in schema if f.name not in dict(partition)])
        connection.register(
            f"{view}__{number}", dataset.dataset(paths, schema=file_schema, filesystem=system, format="parquet")
        )
        selects.append(select_columns(schema, partition) + f" FROM {identifier(f'{view}__{number}')}")
    return selects

"""Delta tables without a JVM: made, opened, appended by delta-rs; read by DuckDB over the files that the log lists."""

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
from cutover.errors import LakeError
from cutover.lake.tables import checksums, delta_log
from cutover.lake.tables.file_rows import Partition, nothing, select, select_columns
from cutover.lake.tables.folder_names import refuse_name
from cutover.quoting import identifier

CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
}

SHORT_LOG = {"delta.logRetentionDuration": "interval 10 minutes"}
"""For a table that is committed to all the time and read by rows, not by version: a commit slows with each log file."""

READ = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})  # reader features that change no file


class TableLogError(LakeError):
    """An entry of a table's log is missing, empty or no JSON; `sentence` says which, after the table's kind."""

    def __init__(self, uri: str, found: str) -> None:
        self.sentence = f"`{uri}`: expected every entry of its table log to be whole, got {found}."
        super().__init__(f"Table {self.sentence}", runbook="TableUnreadable")


def exists(uri: str) -> bool:
    """Return whether a Delta table lies at `uri`.

    Raises:
        LakeError: The place cannot be looked at, or cannot be named to delta-rs.
    """
    refuse_name(uri)
    try:
        return bool(DeltaTable.is_deltatable(uri))
    except (DeltaError, OSError) as error:
        msg = f"Table `{uri}`: expected a folder of a table or none, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error


def open_table(uri: str, version: int | None = None) -> DeltaTable:
    """Return a handle of a table, at a version if given.

    Raises:
        LakeError: There is no table, its log is damaged, or its files alone do not say what it holds.
    """
    refuse_name(uri)
    try:
        table = DeltaTable(uri, version=version)
    except TableNotFoundError as error:
        msg = f"Table `{uri}`: expected a Delta table, found none."
        raise LakeError(msg, runbook="TableUnreadable") from error
    except DeltaError as error:
        _refuse_damaged(uri, read=True)
        at = "" if version is None else f" at version {version}"
        msg = f"Table `{uri}`{at} cannot be opened: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    _refuse_damaged(uri, read=False)
    _check_readable(table)
    return table


def read_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table at the version that the handle shows, partition columns among them."""
    columns: Any = table.schema().to_arrow()  # of another library: Arrow takes it over by the C interface
    return pa.schema(columns)


def transaction(table: DeltaTable, app_id: str) -> int | None:
    """Return the number of the newest commit that carries an application id; None: none does.

    Raises:
        LakeError: The table's log is damaged where it says so, which opening a table does not look at.
    """
    with _telling(table):
        found = table.transaction_version(app_id)
    return None if found is None else int(found)


def history(table: DeltaTable, *, after: int = -1) -> Iterator[dict[str, Any]]:
    """Yield what the commits up to a handle's version say of themselves, newest first, with the `version` of each.

    Not by delta-rs: it lists the newest commits that are there, and numbers them from the handle's version down. Down
    to the first commit that the table's log no longer holds, or to the one behind `after`.
    """
    for version in range(int(table.version()), after, -1):
        entry = delta_log.read(table.table_uri, version)
        if entry is None:
            return
        yield {**delta_log.info(entry), "version": version}


@contextmanager
def _telling(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except DeltaError as error:
        msg = f"Table `{local_root(table) or table.table_uri}`: expected a log that can be read, got: "
        raise LakeError(msg + f"{str(error).splitlines()[0]}.", runbook="TableUnreadable") from error


def refuse_damaged_log(uri: str) -> None:
    """Reject a table whose log holds an entry that was changed after its commit, before its rows are blamed.

    Raises:
        TableLogError: Names the entry.
    """
    _refuse_damaged(uri, read=True)


def _refuse_damaged(uri: str, *, read: bool) -> None:
    """Refuse a table that a plain open cannot read, or reads as of an older version without a word."""
    broken = delta_log.damage(uri, read=read)
    if broken is not None:
        raise TableLogError(uri, f"`{broken.file}`, which {broken.what}")


def _check_readable(table: DeltaTable) -> None:
    """Refuse what a reader of listed files would get wrong: deleted rows that it would see, columns renamed."""
    features = set(table.protocol().reader_features or ()) - READ
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        names = ", ".join(sorted(features))
        msg = (
            f"Table `{table.table_uri}`: expected a table whose files hold its rows as they are, got one with {names}."
        )
        hint = "\nHint: write a copy without it (CREATE TABLE ... AS SELECT), and read that."
        raise LakeError(msg + hint, runbook="TableUnreadable")


def local_root(table: DeltaTable) -> Path | None:
    """Return the folder of a table on this machine, None of one in an object store. A handle holds it as a URI does."""
    uri = table.table_uri.removeprefix("file://")
    return None if "://" in uri else Path(unquote(uri))


def file_path(root: Path, action: Mapping[str, Any]) -> Path:
    """Return the file of an add action; the log holds its path as a URI does, with `%` and two digits."""
    return root / unquote(action["path"])


def ensure(
    uri: str, schema: pa.Schema, *, partition_by: Sequence[str] = (), configuration: Mapping[str, str] = CONFIGURATION
) -> DeltaTable:
    """Return the table at `uri`, made with `schema` if it is not there.

    Args:
        uri: Where.
        schema: Of a new table.
        partition_by: Of a new table.
        configuration: Of a new table; what it does not say is as in `CONFIGURATION`.

    Raises:
        LakeError: It cannot be made or opened.
    """
    if exists(uri):
        return open_table(uri)
    try:
        return DeltaTable.create(
            uri,
            schema,
            partition_by=list(partition_by),
            configuration={**CONFIGURATION, **configuration},
            # Retried, the slower of two makers would put its own table over the other one's.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except (DeltaError, OSError) as error:
        if exists(uri):
            return open_table(uri)
        msg = f"Table `{uri}`: expected a place that tables can be made in, got: {str(error).splitlines()[0]}."
        hint = "\nHint: look at `lake` and `home` in the settings, and at the folder's owner."
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
        connection: Where.
        view: Its name.
        table: The handle.
        kinds: Values of the partition column `_kind` whose files are read; None: all.
        paths: Of the files that are read, as the log has them; None: all.
        file_column: A further column of the view, of a table on this machine: the path of each row's file.

    Raises:
        FileDamagedError: A file is not there, or does not hold what was committed.
    """
    schema = read_schema(table)
    root = local_root(table)
    listed = [action for action in _list_actions(table, kinds) if paths is None or action[1]["path"] in paths]
    check(table, [action for _, action in listed])
    if root is None:
        selects = _remote_selects(connection, view, table, schema, listed)
    else:
        selects = [
            select(schema, files, partition, file_column=file_column)
            for partition, files in _files(root, listed).items()
        ]
    further = "" if file_column is None else f", CAST(NULL AS VARCHAR) AS {identifier(file_column)}"
    body = " UNION ALL ".join(selects) or nothing(schema, further)
    with naming(table):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(view)} AS {body}")
    return int(table.version())


def check(table: DeltaTable, actions: Sequence[Mapping[str, Any]]) -> None:
    """Refuse listed files of a table that do not hold what was committed.

    Raises:
        FileDamagedError: Names the first one.
    """
    system, root = folder_of(table)
    place = f"Table `{root}`, version {table.version()}"
    for action in actions:
        path = str(action["path"])
        try:
            checksums.check(system, root, path, place=place)
        except checksums.FileDamagedError as error:
            raise error.holding(describe_contents(table, path)) from error


def describe_contents(table: DeltaTable, path: str) -> str:
    """Return what a listed file held, in words for people, from the table's log; empty if that says nothing."""
    with queries.connect() as connection:
        connection.register("listed", pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all())
        columns = {str(row[0]) for row in connection.execute("DESCRIBE listed").fetchall()}
        contents = []
        for what, column in (("epochs", "_epoch"), ("windows", "window_start")):
            if {f"min.{column}", f"max.{column}"} <= columns:
                bounds = f'"min.{column}"::VARCHAR, "max.{column}"::VARCHAR'
                row = connection.execute(f"SELECT {bounds} FROM listed WHERE path = ?", [path]).fetchone()  # noqa: S608
                if row is not None and row[0] is not None:
                    contents.append(f"{what} {row[0]} to {row[1]}")
    return ", ".join(contents)


def folder_of(table: DeltaTable) -> tuple[fs.FileSystem, str]:
    """File system and root folder, as pyarrow reads and writes there."""
    root = local_root(table)
    return storage.place(table.table_uri) if root is None else (fs.LocalFileSystem(), str(root))


def _check_partition(table: DeltaTable, action: Mapping[str, Any]) -> None:
    """Reject a file of ours that is listed under other partition values than those of its folder.

    A log entry has no checksum of its own. The path of a file of ours says all of it: the bytes by a checksum, the
    partition values by the folder. So a value that was changed hides no file from readers of one partition.
    """
    path = str(action["path"])
    name = checksums.name_of(path)
    if name is None:
        return
    values = {k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")}
    listed = "/".join(f"{column}={value}" for column, value in values.items())
    if name.folder != listed:
        msg = f"Table `{local_root(table) or table.table_uri}`, version {table.version()}: file `{path}`: expected it "
        msg += f"to be listed as `{name.folder or 'no partition'}`, got `{listed or 'none'}`."
        raise checksums.FileDamagedError(
            msg + "\nHint: its folder says so; an entry of the table's log was changed.", file=path
        )


@contextmanager
def naming(*read: DeltaTable) -> Iterator[None]:
    """Turn the failure of a query into an error that names the file of these tables that cannot be read, if one is.

    Raises:
        LakeError: Names table, version and file. A query that fails otherwise fails as it did.
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

    Times are left out, but for those that files are partitioned by, as texts.

    Raises:
        FileDamagedError: A file is listed under other partition values than those of its folder.
    """
    # Neither `pa.table` nor a time in a list: both import pandas, half a second for a command that only answers.
    found = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    for place, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type) and field.name.startswith("partition."):
            found = found.set_column(place, field.name, found[field.name].cast(pa.string()))
    files: list[dict[str, Any]] = found.select(
        [f.name for f in found.schema if not pa.types.is_timestamp(f.type)]
    ).to_pylist()
    for action in files:
        _check_partition(table, action)
    return files


def find_damaged(table: DeltaTable) -> dict[str, Any] | None:
    """Return the add action of the first file that cannot be read to its end; None if all can. Reads everything."""
    root = local_root(table)
    if root is None:
        return None
    schema = read_schema(table)
    with queries.connect() as connection:
        for action in actions(table):
            in_path = {k.removeprefix("partition.") for k in action if k.startswith("partition.")}
            columns = pa.schema([field for field in schema if field.name not in in_path])
            query = select(columns, [str(file_path(root, action))])
            try:
                connection.execute(f"SELECT bit_xor(hash(t)) FROM ({query}) t").fetchall()  # noqa: S608 -- quoted
            except duckdb.Error:
                return dict(action)
    return None


def _files(root: Path, listed: Sequence[tuple[Partition, dict[str, Any]]]) -> dict[Partition, list[str]]:
    """Return the paths of listed files by their partition values."""
    groups: dict[Partition, list[str]] = {}
    for partition, action in listed:
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
    listed: Sequence[tuple[Partition, dict[str, Any]]],
) -> list[str]:
    """Register the files of a table in an object store by their partition values; return the queries of their rows.

    Not delta-rs's own dataset: where a file has statistics of some columns only, that prunes by the others, wrongly.
    """
    from pyarrow import dataset  # noqa: PLC0415 -- imports pandas; a lake in an object store only

    system, folder = storage.place(table.table_uri)
    groups: dict[Partition, list[str]] = {}
    for partition, action in listed:
        groups.setdefault(partition, []).append(f"{folder}/{unquote(action['path'])}")
    selects = []
    for number, (partition, paths) in enumerate(groups.items()):
        own = pa.schema([f for f in schema if f.name not in dict(partition)])
        connection.register(
            f"{view}__{number}", dataset.dataset(paths, schema=own, filesystem=system, format="parquet")
        )
        selects.append(select_columns(schema, partition) + f" FROM {identifier(f'{view}__{number}')}")
    return selects

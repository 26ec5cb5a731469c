"""Tables that Cutover did not make, as views of one connection, each at one pinned state."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier` or `literal`

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from cutover.engine.queries import describe_error
from cutover.errors import DefinitionError, LakeError
from cutover.lake.tables import delta
from cutover.quoting import identifier, literal
from cutover.settings import Settings
from cutover.sources import addresses, compacted_topic, databases, iceberg, postgres, staging
from cutover.sources.addresses import STORES, TableAddress, mask_source, parse_table_address
from cutover.sources.compacted_topic import TopicState
from cutover.sources.csv_dialect import Dialect, is_csv
from cutover.sources.file_listing import READ, list_table_files
from cutover.sources.iceberg import IcebergTable
from cutover.sources.reading import Reading, choose_reading, folder_values
from cutover.sources.staging import Selection, StagedRows, TimeRange, select_times_sql

_AT_VERSION = re.compile(r"(?P<place>.+)@v(?P<version>[0-9]{1,18})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTable:
    """Location and columns of the rows of one table."""

    name: str  # absolute, of a table on this machine; without secrets
    raw: str  # view of its columns
    view: str  # of its columns, and the one of files
    types: Mapping[str, str]  # of its columns, in order
    file_column: str | None = None  # None: in an object store or a database, read as one
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
    texts: Mapping[str, str] = field(default_factory=dict)  # column -> its type, of which the view has texts alone
    reading: str = ""  # all by which the texts of `untyped` become values
    pinned: str = ""  # the state that was read, for people; empty: the files as they were listed
    properties: Mapping[str, str] = field(default_factory=dict)  # that the writer of this state noted in it
    rows_of: str = ""  # SQL that selects the rows of the table


class SourceBinder:
    """Binds tables of one comparison; copies and attached files are removed when `open_binder` ends."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path, settings: Settings | None = None) -> None:
        self._connection = connection
        self._settings = settings
        self._folder = folder
        self._attached: list[str] = []

    def bind(
        self, view: str, source: str, dialect: Dialect | None = None, selection: Selection | None = None
    ) -> BoundTable:
        """Bind a view to a table.

        Args:
            view: Name of the view of its columns.
            source: A Delta folder (its newest version, or that of `table@v7`), an Iceberg folder (its newest snapshot,
                or that of `table@snapshot=123`), Parquet or CSV (a file, a folder or a glob), or an address of a table
                in a database, a catalog or a compacted topic.
            dialect: Of CSV.
            selection: Columns and rows that are read; None: all.

        Cells of CSV, values in names of folders and numbers without limits are texts here: `untyped`.

        Raises:
            DefinitionError: The table does not exist, or it is none of these.
            LakeError: A file is missing or cannot be read, or a server cannot be reached.
        """
        selection = selection or Selection()
        address = parse_table_address(source)
        if address is None:
            return self._bind_place(view, source, dialect or Dialect(), selection)
        if address.scheme == addresses.ICEBERG:
            return self._bind_iceberg(view, iceberg.open_iceberg_address(address), selection)
        if address.scheme == databases.DUCKDB:
            return self._bind_attached(view, address, selection)
        if address.scheme == compacted_topic.KAFKA:
            return self.bind_topic(view, address, selection)[0]
        if address.scheme in addresses.POSTGRES:
            rows = postgres.stage_postgres_table(self._connection, address, selection, self._folder)
            return self._bind_staged(view, address.shown, rows)
        rows, foreign = databases.stage_database_rows(self._connection, address, selection, self._folder)
        return replace(self._bind_staged(view, address.shown, rows), unreadable=foreign)

    def bind_postgres(
        self,
        view: str,
        snapshot: postgres.PostgresSnapshot,
        address: TableAddress,
        conditions: Mapping[str, str] | None = None,
    ) -> BoundTable:
        """Bind a view to all rows of a table in a snapshot that the caller has opened, to read more from it.

        Args:
            view: Name of the view.
            snapshot: Open transaction.
            address: Of the table.
            conditions: Name -> SQL of the server that is true or false for a row; further columns of the view.

        Raises:
            DefinitionError: The table does not exist.
            LakeError: The server ends the transaction, or a value cannot be held exactly.
        """
        rows = snapshot.stage(self._connection, address.table, Selection(), self._folder, conditions)
        return self._bind_staged(view, address.shown, rows)

    def bind_topic(
        self, view: str, address: TableAddress, selection: Selection | None = None
    ) -> tuple[BoundTable, TopicState]:
        """Bind a view to the rows of a compacted topic, and return where its records are.

        Raises:
            DefinitionError: The address names no topic.
            LakeError: The topic is no table.
            LogError: No broker responds, or the topic does not exist.
        """
        settings, selection = self._settings or Settings(), selection or Selection()
        rows, state = compacted_topic.stage_topic_rows(self._connection, address, settings, selection, self._folder)
        return self._bind_staged(view, address.shown, rows), state

    def read_topic_ends(self, address: TableAddress) -> dict[int, int]:
        """Read the present end offsets of a topic.

        Raises:
            LogError: No broker responds, or the topic does not exist.
        """
        return compacted_topic.read_topic_ends(address, self._settings or Settings())

    def _bind_place(self, view: str, source: str, dialect: Dialect, selection: Selection) -> BoundTable:
        """Bind a view to a table in files."""
        _reject_address(source)
        place, snapshot = iceberg.split_snapshot(source)
        if "://" not in place and not (Path(place) / "_delta_log").is_dir() and iceberg.is_iceberg_path(place):
            return self._bind_iceberg(view, iceberg.open_iceberg_folder(source, place, snapshot), selection)
        place, version = _parse_version(source)
        if "://" in source or (Path(place) / "_delta_log").is_dir():
            uri = place if "://" in place else str(Path(place).absolute())
            return self._bind_delta(view, uri, version, selection)
        return self._bind_listed(view, source, list_table_files(source), dialect, selection.times)

    def _bind_listed(
        self, view: str, source: str, files: list[str], dialect: Dialect, times: TimeRange | None
    ) -> BoundTable:
        """Bind a view to Parquet or CSV files, all of one kind."""
        connection, by_file = self._connection, f"{view}_by_file"
        has_text = is_csv(files[0])
        try:
            reading = choose_reading(connection, source, files, dialect)
            column = _bind_files(connection, f"{view}_whole", reading)
            rows_of = self._select_rows(f"{view}_whole", by_file, source, times)
            types = _select_columns(connection, by_file, (column, *reading.aside), view)
        except duckdb.Error as error:
            msg = f"Table `{source}`: expected {'CSV' if has_text else 'Parquet'}, got: {describe_error(error)}"
            raise LakeError(msg, runbook="TableUnreadable") from None
        return BoundTable(
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
            rows_of=rows_of,
        )

    def _bind_delta(self, view: str, uri: str, version: int | None, selection: Selection) -> BoundTable:
        connection = self._connection
        table = _open_delta(uri, version)
        root = delta.local_root(table)
        column = None if root is None else _free_name(delta.read_schema(table).names)
        by_file = view if column is None else f"{view}_by_file"
        delta.bind(connection, f"{view}_whole", table, file_column=column)
        rows_of = self._select_rows(f"{view}_whole", by_file, uri, selection.times)
        if root is None or column is None:
            types = types_of(connection, view)
            return BoundTable(name=uri, raw=view, view=view, types=types, pinned=f"at version {table.version()}")
        actions = {str(delta.file_path(root, action)): action for action in delta.actions(table)}
        return BoundTable(
            name=str(root),
            raw=view,
            view=by_file,
            types=_select_columns(connection, by_file, (column,), view),
            file_column=column,
            paths={path: str(action["path"]) for path, action in actions.items()},
            optional={field.name: bool(field.nullable) for field in delta.read_schema(table)},
            partition_values={path: text for path, action in actions.items() if (text := _describe_partition(action))},
            rows_of=rows_of,
        )

    def _bind_iceberg(self, view: str, opened: IcebergTable, selection: Selection) -> BoundTable:
        """Bind a view to the files of a snapshot where they hold its rows as they are, else to a copy."""
        tasks = iceberg.plan_iceberg_files(opened, selection.times)
        files = iceberg.list_plain_files(opened, tasks)
        if files is None:
            rows = iceberg.stage_iceberg_rows(self._connection, opened, tasks, selection, self._folder)
            return self._bind_staged(view, opened.shown, rows)
        bound = self._bind_listed(view, opened.shown, files, Dialect(), selection.times)
        return replace(
            bound,
            name=opened.shown,
            optional=iceberg.read_optional_columns(opened),
            pinned=opened.pinned,
            properties=opened.properties,
        )

    def _bind_attached(self, view: str, address: TableAddress, selection: Selection) -> BoundTable:
        database, table = databases.attach_duckdb_table(self._connection, address)
        self._attached.append(database)
        self._connection.execute(f"CREATE TEMP VIEW {identifier(f'{view}_whole')} AS FROM {table}")
        self._select_rows(f"{view}_whole", view, address.shown, selection.times)
        types = types_of(self._connection, view)
        return BoundTable(
            name=address.shown,
            raw=view,
            view=view,
            types=types,
            texts={name: kind for name, kind in types.items() if kind == "JSON"},
            pinned="from a file to which no process can write meanwhile",
        )

    def _bind_staged(self, view: str, name: str, rows: StagedRows) -> BoundTable:
        staging.bind_staged_rows(self._connection, view, rows)
        return BoundTable(
            name=name,
            raw=view,
            view=view,
            types=types_of(self._connection, view),
            optional=rows.optional,
            untyped=rows.untyped,
            texts=rows.texts,
            pinned=rows.pinned,
            properties=rows.properties,
        )

    def _select_rows(self, whole: str, into: str, source: str, times: TimeRange | None) -> str:
        """Make a view of the rows in a range; return its condition, empty where all are in it."""
        condition = "" if times is None else _make_condition(source, types_of(self._connection, whole), times)
        where = f" WHERE {condition}" if condition else ""
        self._connection.execute(f"CREATE TEMP VIEW {identifier(into)} AS FROM {identifier(whole)}{where}")
        return condition

    def close(self) -> None:
        """Detach the files of databases: other connections of the engine must not see them."""
        for database in self._attached:
            self._connection.execute(f"DETACH DATABASE IF EXISTS {identifier(database)}")


@contextmanager
def open_binder(connection: duckdb.DuckDBPyConnection, settings: Settings | None) -> Iterator[SourceBinder]:
    """Give what binds the tables of a comparison; its copies are deleted at the end.

    Args:
        connection: Of the views.
        settings: The installation, with the folder for copies and the cluster; None: the system's folder of temporary
            files, and the cluster of the environment.
    """
    with staging.open_staging_folder(None if settings is None else settings.home) as folder:
        binder = SourceBinder(connection, folder, settings)
        try:
            yield binder
        finally:
            binder.close()


def _make_condition(source: str, types: Mapping[str, str], times: TimeRange) -> str:
    kind = types.get(times.column, "none")
    condition = select_times_sql(identifier(times.column), kind, times)
    if condition is None:
        msg = (
            f"Table `{source}`: column `{times.column}`: expected a date or a timestamp to select rows by, got {kind}."
        )
        raise DefinitionError(msg)
    return condition


def _reject_address(source: str) -> None:
    """Reject what would be shown with a password in it, and object stores whose address has one.

    Raises:
        DefinitionError: It is one of these.
    """
    scheme, separator, location = source.partition("://")
    user = location.partition("/")[0].rpartition("@")[0]  # of abfss:// the name of a container, without a password
    if separator and (scheme.lower() not in STORES or ":" in user or "?" in location):
        msg = f"Table `{scheme[:20]}://...`: expected {READ}, or a Delta table in an object store"
        msg += f" ({', '.join(f'{store}://' for store in STORES)}) without a password or parameters."
        raise DefinitionError(msg + "\nHint: credentials of an object store belong into the environment.")
    if mask_source(source) != source:
        msg = f"Table `{mask_source(source)}`: expected {READ}, found nothing."
        raise DefinitionError(msg + "\nHint: a database is named as `postgresql://user@host/database#schema.table`.")


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


def _open_delta(uri: str, version: int | None) -> DeltaTable:
    table = delta.open_table(uri)
    if version is not None and version > table.version():
        msg = f"Table `{uri}`: expected a version up to {table.version()}, got {version}."
        raise DefinitionError(msg)
    table = table if version is None else delta.open_table(uri, version)
    if "" in delta.read_schema(table).names:
        msg = f"Table `{uri}`: expected columns with names, got one without."
        raise DefinitionError(msg + "\nHint: export the table to Parquet.")
    return table


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


def describe_optional(names: Mapping[str, str], expected: BoundTable, actual: BoundTable) -> tuple[str, ...]:
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

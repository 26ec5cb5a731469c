"""Iceberg tables at one snapshot, by the metadata of a folder or by a catalog that pyiceberg is configured for.

Data files whose columns are those of the table, by field id, name and type, and that have no deletes are read as they
lie. All others go through pyiceberg, which applies deletes by position, renamed and promoted columns, and values that
only a partition has; one file is in memory at a time. Deletes by equality are not applied by it, and are rejected.

The metadata of a folder with the highest number is the newest that a writer has made. Only the catalog knows whether
it was committed, so a note names the file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from pyarrow import parquet

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.quoting import identifier
from cutover.sources.addresses import TableAddress, list_url_secrets, redact
from cutover.sources.file_listing import find_iceberg_metadata
from cutover.sources.reading import reject_like_names
from cutover.sources.staging import Selection, StagedRows, TimeRange, stage_batches

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

_AT_SNAPSHOT = re.compile(r"(?P<place>.+)@snapshot=(?P<snapshot>[0-9]{1,19})", re.DOTALL)
_LOCAL = re.compile(r"(?:file:(?://[^/]*)?)?(?P<path>/.*)", re.DOTALL)
_NUMBER = re.compile(r"v?(?P<number>[0-9]+)(-.*)?(\.gz)?\.metadata\.json(\.gz)?")
_SECRET = re.compile(r"(?i)token|secret|credential|password|key|uri|sas|connection")
_MICROS_A_DAY = 86_400_000_000
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """An Iceberg table at one snapshot."""

    table: "Table"
    snapshot: "Snapshot | None"  # None: nothing was ever written
    shown: str
    is_named: bool = False  # the snapshot is one that was asked for: its columns are those of its time
    secrets: tuple[str, ...] = ()
    metadata_file: str | None = None  # None: a catalog knows the current one

    @property
    def pinned(self) -> str:
        """Return the state of the table, for people."""
        state = "without a snapshot" if self.snapshot is None else f"at snapshot {self.snapshot.snapshot_id}"
        if self.metadata_file is None:
            return state
        file = f"`{self.metadata_file}`, the newest metadata in its folder"
        return f"{state} of {file}; only its catalog knows the current one"

    @property
    def properties(self) -> dict[str, str]:
        """Return what the writer of the snapshot noted in it, such as the position of a job."""
        if self.snapshot is None or self.snapshot.summary is None:
            return {}
        return dict(self.snapshot.summary.additional_properties)

    @property
    def schema(self) -> Any:
        """Return the columns: of the table, or those that a named snapshot was written with."""
        schema_id = self.snapshot.schema_id if self.is_named and self.snapshot is not None else None
        return self.table.schema() if schema_id is None else self.table.schemas()[schema_id]


def split_snapshot(source: str) -> tuple[str, int | None]:
    """Take `table@snapshot=123` apart; a folder that is called so is meant itself."""
    match = _AT_SNAPSHOT.fullmatch(source)
    if match is None or Path(source).exists():
        return source, None
    return match["place"], int(match["snapshot"])


def is_iceberg_path(place: str) -> bool:
    """Return whether a path is the folder of an Iceberg table, or one of its metadata files."""
    path = Path(place)
    if ".metadata.json" in path.name and path.is_file():
        return True
    return path.is_dir() and bool(find_iceberg_metadata(path))


def open_iceberg_folder(source: str, place: str, snapshot: int | None) -> IcebergTable:
    """Open the table of a folder by its newest metadata, or that of a metadata file.

    Raises:
        DefinitionError: No metadata file is the newest one, or the snapshot does not exist.
        LakeError: The metadata cannot be read.
    """
    from pyiceberg.table import StaticTable  # noqa: PLC0415 -- half a second that other tables need not pay

    path = Path(place).absolute()
    file = path if path.is_file() else _find_newest_metadata(source, path)
    with _describing_errors(source, ()):
        table = StaticTable.from_metadata(str(file))
    newest = file.name if path.is_dir() else None
    return _pin(IcebergTable(table=table, snapshot=None, shown=source, metadata_file=newest), snapshot)


def _find_newest_metadata(source: str, folder: Path) -> Path:
    numbers: dict[int, list[Path]] = {}
    for file in find_iceberg_metadata(folder):
        match = _NUMBER.fullmatch(file.name)
        if match is not None:
            numbers.setdefault(int(match["number"]), []).append(file)
    newest = sorted(numbers[max(numbers)]) if numbers else []
    if len(newest) == 1:
        return newest[0]
    names = " and ".join(f"`{file.name}`" for file in newest[:2]) or "none with a number"
    msg = f"Table `{source}`: expected one newest metadata file, got {names}."
    raise DefinitionError(
        msg + "\nHint: name the file that the catalog names, or the catalog: `iceberg://catalog/table`."
    )


def open_iceberg_address(address: TableAddress) -> IcebergTable:
    """Open the table of a catalog, `iceberg://catalog/namespace.table`.

    Raises:
        DefinitionError: The catalog is not configured, or the table or the snapshot does not exist.
        LakeError: The catalog cannot be reached, or the metadata cannot be read.
    """
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 -- half a second that other tables need not pay
    from pyiceberg.utils.config import Config  # noqa: PLC0415

    name, snapshot = split_snapshot(address.table)
    configuration = Config().get_catalog_config(address.host) or {}
    if not configuration or not name:
        msg = f"Table `{address.shown}`: expected `iceberg://catalog/namespace.table` of a configured catalog, got"
        msg += f" {'no table' if configuration else f'the catalog `{address.host}`, which is not configured'}."
        variable = f"PYICEBERG_CATALOG__{address.host.upper()}__URI"
        raise DefinitionError(msg + f"\nHint: pyiceberg reads `{variable}` and `.pyiceberg.yaml`.")
    secrets = tuple(_list_catalog_secrets(configuration))
    with _describing_errors(address.shown, secrets):
        table = load_catalog(address.host, **configuration).load_table(name)
    return _pin(IcebergTable(table=table, snapshot=None, shown=address.shown, secrets=secrets), snapshot)


def _list_catalog_secrets(configuration: Mapping[str, Any]) -> Iterator[str]:
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            yield from _list_catalog_secrets(value)
        elif isinstance(value, str) and _SECRET.search(name):
            yield from list_url_secrets(value) if "://" in value else (value,)


def _pin(opened: IcebergTable, snapshot_id: int | None) -> IcebergTable:
    snapshot = opened.table.current_snapshot() if snapshot_id is None else opened.table.snapshot_by_id(snapshot_id)
    if snapshot_id is not None and snapshot is None:
        existing = ", ".join(str(each.snapshot_id) for each in opened.table.snapshots()[-5:]) or "none"
        msg = f"Table `{opened.shown}`: expected a snapshot that it has, got {snapshot_id}."
        raise DefinitionError(msg + f"\nHint: its latest snapshots are {existing}.")
    return IcebergTable(
        table=opened.table,
        snapshot=snapshot,
        is_named=snapshot_id is not None,
        shown=opened.shown,
        secrets=opened.secrets,
        metadata_file=opened.metadata_file,
    )


def plan_iceberg_files(opened: IcebergTable, times: TimeRange | None) -> "list[FileScanTask]":
    """List the files of the snapshot that may hold rows of a range, each with its deletes.

    Raises:
        DefinitionError: The column of times does not exist or holds none.
        LakeError: A manifest cannot be read, or rows are deleted by equality.
    """
    with _describing_errors(opened.shown, opened.secrets):
        return [] if opened.snapshot is None else list(_scan(opened, (), times).plan_files())


def list_plain_files(opened: IcebergTable, tasks: "Sequence[FileScanTask]") -> list[str] | None:
    """Return the local paths of files that hold the table's rows as they are; None: some do not.

    Raises:
        LakeError: A file does not exist, or has another size than the snapshot says.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415

    expected = _describe_fields(schema_to_pyarrow(opened.schema))
    paths = []
    for task in tasks:
        path = _find_local_path(task.file.file_path)
        if path is None or task.delete_files or str(task.file.file_format.value).upper() != "PARQUET":
            return None
        _check_size(opened, path, task.file.file_size_in_bytes)
        with _describing_errors(opened.shown, opened.secrets):
            fields = _describe_fields(parquet.read_schema(path))
        if fields != expected:
            return None
        paths.append(str(path))
    return paths or None


def _find_local_path(location: str) -> Path | None:
    """Return the path of a local file, whose name Iceberg lists as it is: `%20` in it is no blank."""
    match = _LOCAL.fullmatch(location)
    return None if match is None else Path(match["path"])


def _check_size(opened: IcebergTable, path: Path, size: int) -> None:
    actual = path.stat().st_size if path.is_file() else None
    if actual != size:
        got = "none" if actual is None else f"{actual:,} bytes"
        msg = f"Table `{opened.shown}`: expected file `{path}` of {size:,} bytes, as its snapshot says, found {got}."
        raise LakeError(msg + "\nHint: the snapshot was expired, or the folder was moved.", runbook="TableUnreadable")


def _describe_fields(schema: pa.Schema) -> frozenset[tuple[str, ...]]:
    """Return field id, name and type of every column, at any depth."""
    return frozenset(_list_fields(list(schema), ()))


def _list_fields(fields: "Sequence[pa.Field[Any]]", above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for column in fields:
        kind, number = column.type, (column.metadata or {}).get(_FIELD_ID, b"none").decode()
        parts = [kind.field(n) for n in range(kind.num_fields)]
        # Names of elements and entries are the writer's own; a wide text is one of Arrow alone.
        shape = kind.__class__.__name__ if parts else str(kind).removeprefix("large_")
        name = column.name if not above or above[-1] == "StructType" else ""
        yield (*above, name, number, shape.replace("LargeListType", "ListType"))
        yield from _list_fields(parts, (*above, number, shape.replace("LargeListType", "ListType")))


def stage_iceberg_rows(
    engine: duckdb.DuckDBPyConnection,
    opened: IcebergTable,
    tasks: "Sequence[FileScanTask]",
    selection: Selection,
    folder: Path,
) -> StagedRows:
    """Copy the selected rows of a snapshot, with deletes applied.

    Args:
        engine: Writes the copy.
        opened: The table at its snapshot.
        tasks: Of `plan_iceberg_files`.
        selection: Columns and rows.
        folder: Of the copy.

    Raises:
        DefinitionError: No column is left to read, or the column of times does not exist or holds none.
        LakeError: A file is missing or cannot be read, or a type has no place in Arrow.
    """
    names = [field.name for field in opened.schema.fields]
    read = tuple(name for name in names if name not in selection.excluded)
    if not read:
        msg = f"Table `{opened.shown}`: expected a column to read, got none."
        raise DefinitionError(msg)
    reject_like_names(opened.shown, names)
    with _describing_errors(opened.shown, opened.secrets):
        batches = _read_batches(opened, tasks, read, selection.times)
        path = stage_batches(engine, batches, {name: identifier(name) for name in read}, folder)
    return StagedRows(
        path=path,
        pinned=opened.pinned,
        optional=read_optional_columns(opened),
        unread=tuple(name for name in names if name not in read),
        properties=opened.properties,
    )


def read_optional_columns(opened: IcebergTable) -> dict[str, bool]:
    """Return each column with whether it may hold nulls."""
    return {field.name: not field.required for field in opened.schema.fields}


def _read_batches(
    opened: IcebergTable, tasks: "Sequence[FileScanTask]", names: tuple[str, ...], times: TimeRange | None
) -> pa.RecordBatchReader:
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow  # noqa: PLC0415

    scan = _scan(opened, names, times)
    schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)

    def read() -> Iterator[pa.RecordBatch]:
        for task in tasks:  # all at once would be in memory
            files = ArrowScan(opened.table.metadata, opened.table.io, scan.projection(), scan.row_filter)
            for batch in files.to_record_batches([task]):
                yield from pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, read())


def _scan(opened: IcebergTable, names: tuple[str, ...], times: TimeRange | None) -> Any:
    snapshot = opened.snapshot.snapshot_id if opened.is_named and opened.snapshot is not None else None
    chosen: dict[str, Any] = {"selected_fields": names} if names else {}
    if times is not None:
        chosen["row_filter"] = _make_filter(opened, times)
    return opened.table.scan(snapshot_id=snapshot, **chosen)


def _make_filter(opened: IcebergTable, times: TimeRange) -> "BooleanExpression":
    from pyiceberg import expressions  # noqa: PLC0415

    kind = next((str(field.field_type) for field in opened.schema.fields if field.name == times.column), None)
    if kind not in {"date", "timestamp", "timestamptz"}:
        msg = f"Table `{opened.shown}`: column `{times.column}`: expected a date or a timestamp to select rows by,"
        raise DefinitionError(msg + f" got {kind or 'none'}.")
    condition: BooleanExpression = expressions.NotNull(times.column)
    for comparison, bound in ((expressions.GreaterThanOrEqual, times.start), (expressions.LessThan, times.end)):
        if bound is not None:
            condition = expressions.And(condition, comparison(times.column, _format_bound(bound, str(kind))))
    return condition


def _format_bound(micros: int, kind: str) -> str:
    """Return a bound as pyiceberg reads it; a day is in a range if its midnight is."""
    if kind == "date":
        micros = -(-micros // _MICROS_A_DAY) * _MICROS_A_DAY
    seconds, fraction = divmod(micros, 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=fraction)
    if kind == "date":
        return at.date().isoformat()
    return at.isoformat() if kind == "timestamptz" else at.replace(tzinfo=None).isoformat()


@contextmanager
def _describing_errors(shown: str, secrets: Sequence[str]) -> Iterator[None]:
    """Turn errors of pyiceberg, and of the catalogs and file systems below it, into one without secrets."""
    try:
        yield
    except CutoverError:
        raise
    except Exception as error:  # noqa: BLE001 -- each catalog raises errors of its own library
        message = redact(error, secrets)
        if "equality deletes" in message:
            msg = (
                f"Table `{shown}`: expected deletes by position, got some by equality, which pyiceberg does not apply."
            )
            hint = "compact the table, or read a copy that an engine made of it"
            raise LakeError(msg + f"\nHint: {hint}.", runbook="TableUnreadable") from None
        msg = f"Table `{shown}`: expected an Iceberg table that can be read, got: {message}."
        raise LakeError(msg, runbook="TableUnreadable") from None

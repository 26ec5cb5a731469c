"""Data files of a table's folder, named by their checksum; readers see them once a commit lists them."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from cutover.engine import storage
from cutover.lake.tables import checksums, delta
from cutover.timestamps import parse_micros

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, Statistics

LONGEST = 64  # characters of a text that statistics hold
Values = Mapping[str, str | None]  # partition column -> value


def read_data_file(table: DeltaTable, path: str, columns: Sequence[str]) -> pa.Table:
    """Return columns of one small data file of a table, by its path in the table's log; no partition columns.

    No engine is used: opening a DuckDB connection takes longer than reading a few rows.

    Raises:
        FileDamagedError: The file does not exist, or does not hold the bytes that were committed.
        OSError, pa.ArrowException: It does not parse, or lacks a column.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that most commands need not pay

    delta.check_listed_files(table, [{"path": path}])
    system, folder = delta.folder_of(table)
    with pq.ParquetFile(f"{folder}/{unquote(path)}", filesystem=system) as file:
        missing = set(columns) - set(file.schema_arrow.names)
        if missing:
            msg = f"expected columns {', '.join(columns)}, got a file without {', '.join(sorted(missing))}"
            raise pa.ArrowInvalid(msg)
        return file.read(columns=list(columns))


def read_span(table: DeltaTable, path: str) -> tuple[int | None, int | None]:
    """Return the first `window_start` and the last `window_end` of a file in microseconds, by its footer alone.

    None if the footer lacks them, or cannot be read: such a file may hold any window.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that most commands need not pay

    system, root = delta.folder_of(table)
    try:
        statistics = json.loads(of_footer(pq.read_metadata(f"{root}/{unquote(path)}", filesystem=system), without=None))
    except (OSError, pa.ArrowException):
        return None, None
    start, end = statistics["minValues"].get("window_start"), statistics["maxValues"].get("window_end")
    return (None if start is None else parse_micros(start), None if end is None else parse_micros(end))


def write_data_file(
    uri: str, rows: pa.Table, stem: str, *, partition: Values | None = None, new_data: bool = True
) -> AddAction:
    """Write rows to a new file and return the action that lists it.

    Args:
        uri: URI of the table.
        rows: Rows without partition columns.
        stem: Stem of the file's name, from `checksums.new_stem`.
        partition: Partition values of the file.
        new_data: False if other files held the same rows.

    Raises:
        OSError: The storage did not accept a file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    sink = pa.BufferOutputStream()
    file_metadata: list[FileMetaData] = []
    pq.write_table(rows, sink, compression="zstd", metadata_collector=file_metadata)
    content = sink.getvalue()
    path = _path(partition or {}, checksums.file_name(stem, checksums.hash_bytes(memoryview(content))))
    system, root = storage.resolve_uri(uri)
    _write_file(system, f"{root}/{path}", content)
    statistics = of_footer(file_metadata[0], without=_not_numbers(rows))
    return _add(path, content.size, partition or {}, statistics, new_data=new_data)


def stream_data_file(uri: str, rows: pa.RecordBatchReader, stem: str, *, partition: Values | None = None) -> AddAction:
    """Write rows to a new file as `write_data_file` does, one batch at a time.

    Raises:
        OSError: The storage did not accept a file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.resolve_uri(uri)
    path = _path(partition or {}, f"{stem}.parquet")
    system.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
    with pq.ParquetWriter(f"{root}/{path}", rows.schema, filesystem=system, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
    return adopt_data_file(uri, path, stem, partition=partition)


def adopt_data_file(
    uri: str, path: str, stem: str, *, partition: Values | None = None, new_data: bool = True
) -> AddAction:
    """Rename a file in a table's folder after its checksum, and return the action that lists it.

    Args:
        uri: URI of the table.
        path: Path of the file, relative to the table's folder.
        stem: Stem of its new name.
        partition: Partition values of the file.
        new_data: False if other files held the same rows.

    Raises:
        OSError: The file cannot be read or renamed.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.resolve_uri(uri)
    source = f"{root}/{path}"
    target_path = _path(partition or {}, checksums.file_name(stem, checksums.hash_file(system, source)))
    footer = pq.read_metadata(source, filesystem=system)
    system.create_dir(f"{root}/{target_path}".rpartition("/")[0], recursive=True)
    system.move(source, f"{root}/{target_path}")
    size = int(system.get_file_info(f"{root}/{target_path}").size)
    return _add(target_path, size, partition or {}, of_footer(footer, without=None), new_data=new_data)


def list_again(uri: str, path: str) -> AddAction:
    """Return the action that lists a file again which an older version of an unpartitioned table listed.

    Raises:
        FileDamagedError: The file does not exist, or does not hold the bytes that were committed.
        OSError, pa.ArrowException: The file is not valid Parquet.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.resolve_uri(uri)
    checksums.check_stored_file(system, root, path, place=f"Table `{uri}`")
    footer = pq.read_metadata(f"{root}/{unquote(path)}", filesystem=system)
    size = int(system.get_file_info(f"{root}/{unquote(path)}").size)
    return _add(path, size, {}, of_footer(footer, without=None), new_data=True)


def remove(action: Mapping[str, Any], *, new_data: bool = False) -> RemoveAction:
    """Return the action that removes a file, from its entry in `delta.actions`."""
    return RemoveAction(
        path=action["path"],
        data_change=new_data,
        deletion_timestamp=now(),
        size=action["size_bytes"],
        partition_values={k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")},
    )


def split(rows: pa.Table, by: str | None) -> Iterable[tuple[Values, pa.Table]]:
    """Yield the rows of each value of a partition column, without that column; all rows if there is no such column."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as above

    if by is None:
        yield {}, rows
        return
    for value in pc.unique(rows[by]):
        yield {by: value.as_py()}, rows.filter(pc.equal(rows[by], value)).drop_columns([by])


def now() -> int:
    """Return the time in milliseconds, as in a table's log."""
    return int(time.time() * 1000)


def of_footer(footer: "FileMetaData", *, without: Sequence[str] | None) -> str:
    """Return a file's statistics for a table's log: its number of rows, bounds and nulls of plain columns.

    Args:
        footer: Footer of the file.
        without: Columns of doubles without bounds, because a value is not a number; None: all columns of doubles.
    """
    least, greatest, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    unbounded = set[str]()
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            name, statistics = column.path_in_schema, column.statistics
            if "." in name:
                continue
            if statistics is None or statistics.null_count is None:
                unbounded.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + statistics.null_count
            if statistics.null_count == column.num_values and not statistics.has_min_max:
                continue
            bounds = _bounds(statistics) if _is_bounded(name, column.physical_type, without) else None
            if bounds is None:
                unbounded.add(name)
                continue
            least[name] = min(least.get(name, bounds[0]), bounds[0])
            greatest[name] = max(greatest.get(name, bounds[1]), bounds[1])
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": {name: _plain(value) for name, value in least.items() if name not in unbounded},
            "maxValues": {name: _plain(value) for name, value in greatest.items() if name not in unbounded},
            "nullCount": nulls,
        }
    )


def _is_bounded(name: str, kind: str, without: Sequence[str] | None) -> bool:
    return kind not in {"DOUBLE", "FLOAT"} or (without is not None and name not in without)


def _bounds(statistics: "Statistics") -> tuple[Any, Any] | None:
    if not statistics.has_min_max:
        return None
    both = statistics.min, statistics.max
    return both if all(_is_short(value) for value in both) else None


def _is_short(value: object) -> bool:
    """Return whether a value is short enough for statistics."""
    return not isinstance(value, bytes) and not (isinstance(value, str) and len(value) > LONGEST)


def _plain(value: Any) -> Any:
    """Convert times to texts and decimals to floats, as in Delta's statistics."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _not_numbers(rows: pa.Table) -> list[str]:
    """List the columns of doubles with a value that is not a number, or infinite."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as above

    doubles = [field.name for field in rows.schema if pa.types.is_floating(field.type)]
    return [name for name in doubles if not pc.all(pc.is_finite(rows[name])).as_py()]


def _path(partition: Values, file: str) -> str:
    return "/".join([*(f"{name}={value}" for name, value in partition.items()), file])


def _write_file(system: fs.FileSystem, path: str, content: pa.Buffer) -> None:
    if not isinstance(system, fs.LocalFileSystem):
        with system.open_output_stream(path) as stream:
            stream.write(content)
        return
    system.create_dir(path.rpartition("/")[0], recursive=True)
    with open(path, "xb") as file:  # noqa: PTH123 -- a file system's own path
        file.write(content)


def _add(path: str, size: int, partition: Values, statistics: str, *, new_data: bool) -> AddAction:
    return AddAction(path, size, dict(partition), now(), new_data, statistics)

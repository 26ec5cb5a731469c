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


def read(table: DeltaTable, path: str, columns: Sequence[str]) -> pa.Table:
    """Return columns of one small data file of a table, by its path in the table's log; no partition columns.

    Without an engine: making a DuckDB connection takes longer than reading a few rows.

    Raises:
        FileDamagedError: The file is not there, or does not hold what was committed.
        OSError, pa.ArrowException: It does not parse, or lacks a column.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that most commands need not pay

    delta.check(table, [{"path": path}])
    system, folder = delta.folder_of(table)
    with pq.ParquetFile(f"{folder}/{unquote(path)}", filesystem=system) as file:
        missing = set(columns) - set(file.schema_arrow.names)
        if missing:
            msg = f"expected columns {', '.join(columns)}, got a file without {', '.join(sorted(missing))}"
            raise pa.ArrowInvalid(msg)
        return file.read(columns=list(columns))


def read_span(table: DeltaTable, path: str) -> tuple[int | None, int | None]:
    """Return the first `window_start` and the last `window_end` of a file in microseconds, by its footer alone.

    None where it does not say, or cannot be read: such a file may hold any window.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that most commands need not pay

    system, root = delta.folder_of(table)
    try:
        statistics = json.loads(of_footer(pq.read_metadata(f"{root}/{unquote(path)}", filesystem=system), without=None))
    except (OSError, pa.ArrowException):
        return None, None
    first, last = statistics["minValues"].get("window_start"), statistics["maxValues"].get("window_end")
    return (None if first is None else parse_micros(first), None if last is None else parse_micros(last))


def write(uri: str, rows: pa.Table, stem: str, *, partition: Values | None = None, new_data: bool = True) -> AddAction:
    """Write rows to a new file and return the action that lists it.

    Args:
        uri: The table's.
        rows: Without partition columns.
        stem: As `checksums.new_stem` makes it.
        partition: Of the file.
        new_data: False where other files said the same before.

    Raises:
        OSError: The storage took no file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    sink = pa.BufferOutputStream()
    file_metadata: list[FileMetaData] = []
    pq.write_table(rows, sink, compression="zstd", metadata_collector=file_metadata)
    content = sink.getvalue()
    path = _path(partition or {}, checksums.file_name(stem, checksums.of_bytes(memoryview(content))))
    system, root = storage.place(uri)
    _put(system, f"{root}/{path}", content)
    statistics = of_footer(file_metadata[0], without=_not_numbers(rows))
    return _add(path, content.size, partition or {}, statistics, new_data=new_data)


def stream(uri: str, rows: pa.RecordBatchReader, stem: str, *, partition: Values | None = None) -> AddAction:
    """Write rows to a new file, a batch at a time, as `write` does.

    Raises:
        OSError: The storage took no file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.place(uri)
    path = _path(partition or {}, f"{stem}.parquet")
    system.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
    with pq.ParquetWriter(f"{root}/{path}", rows.schema, filesystem=system, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
    return adopt(uri, path, stem, partition=partition)


def adopt(uri: str, path: str, stem: str, *, partition: Values | None = None, new_data: bool = True) -> AddAction:
    """Name a file by its checksum that an engine has written into a table's folder; return the action that lists it.

    Args:
        uri: The table's.
        path: Of the file, relative to the table's folder.
        stem: Its name to be.
        partition: Of the file.
        new_data: False where other files said the same before.

    Raises:
        OSError: It cannot be read or renamed.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.place(uri)
    before = f"{root}/{path}"
    after = _path(partition or {}, checksums.file_name(stem, checksums.of_file(system, before)))
    footer = pq.read_metadata(before, filesystem=system)
    system.create_dir(f"{root}/{after}".rpartition("/")[0], recursive=True)
    system.move(before, f"{root}/{after}")
    size = int(system.get_file_info(f"{root}/{after}").size)
    return _add(after, size, partition or {}, of_footer(footer, without=None), new_data=new_data)


def list_again(uri: str, path: str) -> AddAction:
    """Return the action that lists a file of an unpartitioned table which an older version of it listed.

    Raises:
        FileDamagedError: The file is not there, or does not hold what was committed.
        OSError, pa.ArrowException: It does not parse.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only reads need not pay

    system, root = storage.place(uri)
    checksums.check(system, root, path, place=f"Table `{uri}`")
    footer = pq.read_metadata(f"{root}/{unquote(path)}", filesystem=system)
    size = int(system.get_file_info(f"{root}/{unquote(path)}").size)
    return _add(path, size, {}, of_footer(footer, without=None), new_data=True)


def remove(action: Mapping[str, Any], *, new_data: bool = False) -> RemoveAction:
    """Return the action that lists a file no more, from what `listed` says of it."""
    return RemoveAction(
        path=action["path"],
        data_change=new_data,
        deletion_timestamp=now(),
        size=action["size_bytes"],
        partition_values={k.removeprefix("partition."): v for k, v in action.items() if k.startswith("partition.")},
    )


def split(rows: pa.Table, by: str | None) -> Iterable[tuple[Values, pa.Table]]:
    """Yield the rows of each value of a partition column, without it; all of them where there is none."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as above

    if by is None:
        yield {}, rows
        return
    for value in pc.unique(rows[by]):
        yield {by: value.as_py()}, rows.filter(pc.equal(rows[by], value)).drop_columns([by])


def now() -> int:
    """Return the time as a table's log holds it, milliseconds."""
    return int(time.time() * 1000)


def of_footer(footer: "FileMetaData", *, without: Sequence[str] | None) -> str:
    """Return a file's statistics as a table's log holds them: its number of rows, bounds and nulls of plain columns.

    Args:
        footer: Of the file.
        without: Columns of doubles whose bounds hold no longer since a value is no number; None: of all of them.
    """
    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    unbounded = set[str]()
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            name, found = column.path_in_schema, column.statistics
            if "." in name:
                continue
            if found is None or found.null_count is None:
                unbounded.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if found.null_count == column.num_values and not found.has_min_max:
                continue
            bounds = _bounds(found) if _is_bounded(name, column.physical_type, without) else None
            if bounds is None:
                unbounded.add(name)
                continue
            least[name] = min(least.get(name, bounds[0]), bounds[0])
            most[name] = max(most.get(name, bounds[1]), bounds[1])
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": {name: _plain(value) for name, value in least.items() if name not in unbounded},
            "maxValues": {name: _plain(value) for name, value in most.items() if name not in unbounded},
            "nullCount": nulls,
        }
    )


def _is_bounded(name: str, kind: str, without: Sequence[str] | None) -> bool:
    return kind not in {"DOUBLE", "FLOAT"} or (without is not None and name not in without)


def _bounds(found: "Statistics") -> tuple[Any, Any] | None:
    if not found.has_min_max:
        return None
    both = found.min, found.max
    return both if all(_is_short(value) for value in both) else None


def _is_short(value: object) -> bool:
    """Return whether a value can stand in statistics whole."""
    return not isinstance(value, bytes) and not (isinstance(value, str) and len(value) > LONGEST)


def _plain(value: Any) -> Any:
    """JSON has neither times nor decimals: texts and floats, as Delta's statistics write them."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _not_numbers(rows: pa.Table) -> list[str]:
    """Return the columns of doubles that hold a value which is no number, or is infinite."""
    import pyarrow.compute as pc  # noqa: PLC0415 -- as above

    doubles = [field.name for field in rows.schema if pa.types.is_floating(field.type)]
    return [name for name in doubles if not pc.all(pc.is_finite(rows[name])).as_py()]


def _path(partition: Values, file: str) -> str:
    return "/".join([*(f"{name}={value}" for name, value in partition.items()), file])


def _put(system: fs.FileSystem, path: str, content: pa.Buffer) -> None:
    if not isinstance(system, fs.LocalFileSystem):
        with system.open_output_stream(path) as stream:
            stream.write(content)
        return
    system.create_dir(path.rpartition("/")[0], recursive=True)
    with open(path, "xb") as file:  # noqa: PTH123 -- a file system's own path
        file.write(content)


def _add(path: str, size: int, partition: Values, statistics: str, *, new_data: bool) -> AddAction:
    return AddAction(path, size, dict(partition), now(), new_data, statistics)

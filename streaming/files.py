"""Files of the table's folder that the driver lists itself: written first, shown to readers by one commit."""

import json
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from cutover.lake import tables

GROUP = 100_000  # rows of a row group: what a writer holds in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One data file that the table lists or will list."""

    path: str  # relative to the table's folder
    kind: str  # value of the partition column `_kind`
    first: int  # the epochs whose rows it holds, or was folded from: first to last
    last: int
    size: int  # bytes

    @property
    def span(self) -> int:
        """Return the number of epochs."""
        return self.last - self.first + 1


def place(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a table and its folder there."""
    found, root = fs.FileSystem.from_uri(uri)
    return found, root.rstrip("/")


def read(connection: duckdb.DuckDBPyConnection, view: str, uri: str, files: Sequence[File], schema: pa.Schema) -> None:
    """Bind a view to the rows of files, in the order of the files, without reading them yet.

    Args:
        connection: Where.
        view: Its name.
        uri: The table's.
        files: Of that table; in an object store the view can be read once.
        schema: Of the files: no partition column.
    """
    system, root = place(uri)
    paths = [f"{root}/{unquote(file.path)}" for file in files]
    if isinstance(system, fs.LocalFileSystem):
        connection.execute(f"CREATE VIEW {tables.identifier(view)} AS {tables.select(schema, paths)}")
        return
    import pyarrow.dataset as ds  # noqa: PLC0415 -- imports pandas, a second that no command should pay

    found = ds.dataset(paths, schema=schema, filesystem=system, format="parquet")
    connection.register(view, found.scanner(batch_readahead=2, fragment_readahead=1).to_reader())


def export(connection: duckdb.DuckDBPyConnection, query: str, uri: str, path: str, *, scratch: Path) -> tuple[int, int]:
    """Write what a query returns to one new Parquet file, a row group at a time.

    Args:
        connection: Knows the query's relations.
        query: The rows.
        uri: The table's.
        path: Of the file, relative to the table's folder.
        scratch: A folder of this machine, for a file that has to go to an object store from there.

    Returns:
        The number of rows, and of bytes.
    """
    system, root = place(uri)
    local = isinstance(system, fs.LocalFileSystem)
    system.create_dir(f"{root}/{path.rpartition('/')[0]}", recursive=True)
    target = Path(f"{root}/{path}") if local else scratch / Path(path).name
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = f"COPY ({query}) TO {tables.literal(str(target))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP})"
    (rows,) = connection.execute(copy).fetchone() or (0,)
    if not local:
        with target.open("rb") as source, system.open_output_stream(f"{root}/{path}") as out:
            shutil.copyfileobj(source, out)
        target.unlink()
    return int(rows), int(system.get_file_info(f"{root}/{path}").size)


def write(uri: str, rows: pa.Table, file_name: str, *, kind: str, epochs: tuple[int, int]) -> tuple[File, AddAction]:
    """Write rows of one kind to a new file; nobody sees it until it is committed."""
    system, root = place(uri)
    path = f"_kind={kind}/{file_name}-{uuid.uuid4().hex}.parquet"
    data = rows.drop_columns(["_kind"]) if "_kind" in rows.column_names else rows
    system.create_dir(f"{root}/_kind={kind}", recursive=True)
    pq.write_table(data, f"{root}/{path}", filesystem=system, compression="zstd")
    size = system.get_file_info(f"{root}/{path}").size
    numbers = data["_epoch"].to_pylist()
    stats = statistics(len(numbers), min(numbers, default=epochs[0]), max(numbers, default=epochs[1]))
    file = File(path=path, kind=kind, first=epochs[0], last=epochs[1], size=size)
    return file, add(file, stats)


def statistics(rows: int, first: int, last: int) -> str:
    """Return the statistics of a file as the table's log holds them: number of rows, bounds of `_epoch`."""
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {"_epoch": first},
            "maxValues": {"_epoch": last},
            "nullCount": {"_epoch": 0},
        }
    )


def add(file: File, stats: str, *, new_data: bool = False) -> AddAction:
    """Return the action that lists a file; `new_data` is false where other files said the same before."""
    return AddAction(file.path, file.size, {"_kind": file.kind}, _now(), new_data, stats)


def remove(file: File) -> RemoveAction:
    """Return the action that stops listing a file whose rows lie in another one now."""
    values = {"_kind": file.kind}
    return RemoveAction(
        path=file.path, data_change=False, deletion_timestamp=_now(), size=file.size, partition_values=values
    )


def _now() -> int:
    return int(time.time() * 1000)

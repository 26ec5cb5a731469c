"""Files of the table's folder that the driver lists itself: written first, shown to readers by one commit."""

import json
import time
import uuid
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs


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


def read(uri: str, files: list[File], schema: pa.Schema) -> ds.Dataset:
    """Return the rows of files, without the partition column."""
    system, root = place(uri)
    columns = pa.schema([field for field in schema if field.name != "_kind"])
    return ds.dataset([f"{root}/{file.path}" for file in files], schema=columns, filesystem=system, format="parquet")


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

"""Files of the table's folder that the driver lists itself: written first, shown to readers by one commit."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from cutover.lake.tables import checksums, data_files
from cutover.lake.tables.schemas import select_rows_sql
from cutover.quoting import identifier, literal

GROUP = 100_000  # rows of a row group: what a writer holds in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One data file that the table lists or will list."""

    path: str  # relative to the table's folder
    kind: str  # value of the partition column `_kind`
    first_epoch: int  # the epochs whose rows it holds, or was folded from: first to last
    last_epoch: int
    size: int  # bytes

    @property
    def span(self) -> int:
        """Return the number of epochs that the file covers, first and last inclusive."""
        return self.last_epoch - self.first_epoch + 1


def resolve_folder(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a table and its folder there."""
    file_system, root = fs.FileSystem.from_uri(uri)
    return file_system, root.rstrip("/")


def bind_files(
    connection: duckdb.DuckDBPyConnection, view: str, uri: str, files: Sequence[File], schema: pa.Schema
) -> None:
    """Bind a view to the rows of files, in the order of the files, without reading them yet.

    Args:
        connection: Where.
        view: Its name.
        uri: The table's.
        files: Of that table; in an object store the view can be read once.
        schema: Of the files: no partition column.

    Raises:
        FileDamagedError: One does not hold what was committed.
    """
    system, root = resolve_folder(uri)
    for file in files:  # else a fold would put its own checksum on bytes that another writer has changed
        checksums.check_stored_file(system, root, file.path, place=f"Table `{root}`")
    paths = [f"{root}/{unquote(file.path)}" for file in files]
    if isinstance(system, fs.LocalFileSystem):
        connection.execute(f"CREATE TEMP VIEW {identifier(view)} AS {select_rows_sql(schema, paths)}")
        return
    import pyarrow.dataset as ds  # noqa: PLC0415 -- imports pandas, a second that no command should pay

    dataset = ds.dataset(paths, schema=schema, filesystem=system, format="parquet")
    connection.register(view, dataset.scanner(batch_readahead=2, fragment_readahead=1).to_reader())


def export(
    connection: duckdb.DuckDBPyConnection, query: str, uri: str, stem: str, *, kind: str, scratch: Path
) -> AddAction:
    """Write what a query returns to one new Parquet file, a row group at a time.

    Args:
        connection: Knows the query's relations.
        query: The rows, without `_kind`.
        uri: The table's.
        stem: Of the file's name.
        kind: Value of the partition column.
        scratch: A folder of this machine, for a file that has to go to an object store from there.

    Returns:
        The action that lists the file; other files said the same before.
    """
    system, root = resolve_folder(uri)
    local = isinstance(system, fs.LocalFileSystem)
    target = (Path(root) / f"_kind={kind}" if local else scratch) / f"{stem}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    connection.execute(
        f"COPY ({query}) TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP})"
    )
    if not local:
        system.create_dir(f"{root}/_kind={kind}", recursive=True)
        with (
            target.open("rb") as source,
            system.open_output_stream(f"{root}/_kind={kind}/{stem}.parquet") as target_stream,
        ):
            shutil.copyfileobj(source, target_stream)
        target.unlink()
    return data_files.adopt_data_file(
        uri, f"_kind={kind}/{stem}.parquet", stem, partition={"_kind": kind}, new_data=False
    )


def make_removal(file: File) -> RemoveAction:
    """Return the action that stops listing a file whose rows lie in another one now."""
    return data_files.remove({"path": file.path, "size_bytes": file.size, "partition._kind": file.kind})

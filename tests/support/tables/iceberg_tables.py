"""Iceberg tables with deletes, which engines write and pyiceberg does not: a manifest of deletes, committed by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

FILE_PATH, POSITION = 2147483546, 2147483545
"""Ids of the columns of position deletes, by the specification of Iceberg."""


class _DeleteManifestWriter(ManifestWriterV2):  # type: ignore[misc]  # pyiceberg is not followed
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):  # type: ignore[misc]  # pyiceberg is not followed
    """Snapshot that adds files of deletes."""

    def _manifests(self) -> list[ManifestFile]:
        output = self.new_manifest_output()
        metadata = self._transaction.table_metadata
        with _DeleteManifestWriter(
            metadata.spec(), metadata.schema(), output, self._snapshot_id, self._compression
        ) as writer:
            for file in self._added_data_files:
                status = ManifestEntryStatus.ADDED
                writer.add_entry(ManifestEntry.from_args(status=status, snapshot_id=self._snapshot_id, data_file=file))
        return [writer.to_manifest_file(), *self._existing_manifests()]


def make_catalog(folder: Path) -> SqlCatalog:
    """Make a catalog on SQLite with the namespace `shop`."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    return catalog


def find_folder(table: Table) -> str:
    """Return the folder of a table."""
    return str(table.location()).removeprefix("file://")


def delete_positions(table: Table, positions: list[int]) -> None:
    """Delete rows of the first data file by their positions."""
    data_file = next(iter(table.scan().plan_files())).file.file_path
    fields = [_field("file_path", pa.string(), FILE_PATH), _field("pos", pa.int64(), POSITION)]
    rows = pa.table([[data_file] * len(positions), positions], schema=pa.schema(fields))
    _append_deletes(table, rows, DataFileContent.POSITION_DELETES)


def delete_keys(table: Table, keys: list[int]) -> None:
    """Delete the rows of all files whose `k` is one of the keys."""
    number = table.schema().find_field("k").field_id
    rows = pa.table([keys], schema=pa.schema([_field("k", pa.int64(), number)]))
    _append_deletes(table, rows, DataFileContent.EQUALITY_DELETES, equality_ids=[number])


def _field(name: str, kind: pa.DataType, number: int) -> Any:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})


def _append_deletes(table: Table, rows: pa.Table, content: DataFileContent, **more: Any) -> None:
    path = Path(find_folder(table)) / "data" / f"deletes-{len(table.snapshots())}.parquet"
    pq.write_table(rows, path)
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
        **more,
    )
    file.spec_id = table.metadata.default_spec_id
    with table.transaction() as transaction:
        append = _AppendDeletes(operation=Operation.APPEND, transaction=transaction, io=table.io)
        append.append_data_file(file)
        append.commit()

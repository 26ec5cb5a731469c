"""Files of a table in an object store, as the driver writes and reads them for a fold."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import fs

from cutover.engine import queries, storage
from cutover.lake.tables import checksums
from cutover.lake.tables.schemas import make_arrow_schema
from cutover.streaming.sink import files
from cutover.streaming.sink.files import File

SCHEMA = make_arrow_schema({"_epoch": pa.int64(), "text": pa.string()})
NUMBER = 300


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty folder that acts as a remote file system."""
    folder = tmp_path / "store"
    folder.mkdir()
    system = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    for module, name in ((files, "resolve_folder"), (storage, "resolve_uri")):
        monkeypatch.setattr(module, name, lambda _: (system, "bucket/table"))
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def export(connection: duckdb.DuckDBPyConnection, scratch: Path, epoch: int) -> File:
    """Write the rows of one epoch to the store, and return the file."""
    query = f"SELECT {epoch}::BIGINT AS _epoch, 'row ' || i AS text FROM range({NUMBER}) t(i)"  # noqa: S608 -- ours
    stem = checksums.new_stem("fold", epoch)
    exported = files.export(connection, query, "s3://bucket/table", stem, kind="partial", scratch=scratch)
    return File(path=exported.path, kind="partial", first_epoch=epoch, last_epoch=epoch, size=exported.size)


def test_file_is_written_to_an_empty_store_and_leaves_nothing_locally(store: Path, scratch: Path) -> None:
    with queries.open_duckdb() as connection:
        exported = export(connection, scratch, 3)

    assert [str(file.relative_to(store)) for file in store.rglob("*.parquet")] == [f"bucket/table/{exported.path}"]
    assert (exported.size, exported.span) == ((store / "bucket/table" / exported.path).stat().st_size, 1)
    assert list(scratch.iterdir()) == []


@pytest.mark.usefixtures("store")
def test_files_of_a_store_are_read_in_their_order(scratch: Path) -> None:
    with queries.open_duckdb() as connection:
        exported_files = [export(connection, scratch, epoch) for epoch in (7, 3, 5)]
        files.bind_files(connection, "found", "s3://bucket/table", exported_files, SCHEMA)
        rows = connection.execute("SELECT _epoch, text FROM found").fetchall()

    assert rows == [(epoch, f"row {i}") for epoch in (7, 3, 5) for i in range(NUMBER)]


def test_modified_file_of_a_store_is_rejected(store: Path, scratch: Path) -> None:
    with queries.open_duckdb() as connection:
        exported = export(connection, scratch, 3)
        (store / "bucket/table" / exported.path).write_bytes(b"others")

        with pytest.raises(checksums.FileDamagedError, match="expected the bytes that were committed"):
            files.bind_files(connection, "found", "s3://bucket/table", [exported], SCHEMA)

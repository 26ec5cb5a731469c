"""Files of a table that lies in no folder of this machine, as the driver writes and reads them for a fold."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import fs

from cutover.engine import queries, storage
from cutover.lake.tables import checksums
from cutover.lake.tables.schemas import make_schema
from cutover.streaming.sink import files
from cutover.streaming.sink.files import File

SCHEMA = make_schema({"_epoch": pa.int64(), "text": pa.string()})
NUMBER = 300


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder behind a store: a file system that is not this machine's own, empty so far."""
    behind = tmp_path / "store"
    behind.mkdir()
    system = fs.SubTreeFileSystem(str(behind), fs.LocalFileSystem())
    for module in (files, storage):
        monkeypatch.setattr(module, "place", lambda _: (system, "bucket/table"))
    return behind


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def export(connection: duckdb.DuckDBPyConnection, scratch: Path, epoch: int) -> File:
    """Write the rows of one epoch to the store, and return the file."""
    query = f"SELECT {epoch}::BIGINT AS _epoch, 'row ' || i AS text FROM range({NUMBER}) t(i)"  # noqa: S608 -- ours
    stem = checksums.new_stem("fold", epoch)
    made = files.export(connection, query, "s3://bucket/table", stem, kind="partial", scratch=scratch)
    return File(path=made.path, kind="partial", first=epoch, last=epoch, size=made.size)


def test_file_gets_to_a_store_that_has_no_folder_yet_and_leaves_nothing_on_this_machine(
    store: Path, scratch: Path
) -> None:
    with queries.connect() as connection:
        made = export(connection, scratch, 3)

    assert [str(file.relative_to(store)) for file in store.rglob("*.parquet")] == [f"bucket/table/{made.path}"]
    assert (made.size, made.span) == ((store / "bucket/table" / made.path).stat().st_size, 1)
    assert list(scratch.iterdir()) == []


@pytest.mark.usefixtures("store")
def test_files_of_a_store_are_read_in_their_order(scratch: Path) -> None:
    with queries.connect() as connection:
        made = [export(connection, scratch, epoch) for epoch in (7, 3, 5)]
        files.read(connection, "found", "s3://bucket/table", made, SCHEMA)
        found = connection.execute("SELECT _epoch, text FROM found").fetchall()

    assert found == [(epoch, f"row {i}") for epoch in (7, 3, 5) for i in range(NUMBER)]


def test_file_of_a_store_that_was_changed_is_refused(store: Path, scratch: Path) -> None:
    with queries.connect() as connection:
        made = export(connection, scratch, 3)
        (store / "bucket/table" / made.path).write_bytes(b"others")

        with pytest.raises(checksums.FileDamagedError, match="expected the bytes that were committed"):
            files.read(connection, "found", "s3://bucket/table", [made], SCHEMA)

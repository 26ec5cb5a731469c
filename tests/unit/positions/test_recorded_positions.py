"""Positions that a job has recorded: in Delta commits, in Iceberg snapshots, and in a file next to the table."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cutover.errors import LakeError
from cutover.positions.position import FORMAT, Position, PositionLevel, PositionReport, UnknownPosition
from cutover.positions.table_metadata import PROPERTY
from cutover.positions.table_position import FILE_NAME, find_table_position


def encode(offset: int = 10, **fields: object) -> str:
    return json.dumps({"format": FORMAT, "topics": {"t": {"0": offset}}, **fields})


def append(table: Path, text: str | None, rows: int = 1) -> None:
    """Append rows as a job does that records a text in its commit."""
    metadata = None if text is None else CommitProperties(custom_metadata={"userMetadata": text})
    write_deltalake(
        str(table),
        pa.table({"n": list(range(rows))}, pa.schema([("n", pa.int64())])),
        mode="append",
        commit_properties=metadata,
    )


def overwrite(table: Path, text: str, predicate: str | None = None) -> None:
    """Replace all rows, or those of a predicate."""
    metadata = CommitProperties(custom_metadata={"userMetadata": text})
    rows = pa.table({"n": pa.array([0], pa.int64())})
    write_deltalake(str(table), rows, mode="overwrite", predicate=predicate, commit_properties=metadata)


def add_commit(table: Path, operation: str, *, text: str | None, changes: bool = False) -> None:
    """Add a commit with an operation that delta-rs does not write."""
    version = DeltaTable(str(table)).version() + 1
    info: dict[str, Any] = {"timestamp": 1_700_000_000_000, "operation": operation}
    info |= {} if text is None else {"userMetadata": text}
    path = min(DeltaTable(str(table)).file_uris()).rpartition("/")[2]
    removal = {"remove": {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": changes}}
    addition = {"add": {"path": path, "size": 1, "partitionValues": {}, "modificationTime": 1, "dataChange": changes}}
    actions = [{"commitInfo": info}, *([removal] if changes else [removal, addition])]
    file = table / "_delta_log" / f"{version:020d}.json"
    file.write_text("\n".join(json.dumps(action) for action in actions))


def get_position(report: PositionReport) -> Position:
    assert isinstance(report.position, Position), report.position
    return report.position


def get_reason(report: PositionReport) -> str:
    assert isinstance(report.position, UnknownPosition)
    return report.position.reason


def test_the_newest_commit_with_rows_states_the_position(tmp_path: Path) -> None:
    append(tmp_path, encode(10))
    append(tmp_path, encode(20, table={"version": 1}))

    position = get_position(find_table_position(str(tmp_path)))

    assert (position.topics, position.table_version, position.level) == ({"t": {0: 20}}, 1, PositionLevel.EXACT)


@pytest.mark.parametrize("operation", ["OPTIMIZE", "VACUUM START", "SET TBLPROPERTIES"])
@pytest.mark.parametrize("text", [None, encode(99)])
def test_maintenance_leaves_the_position_as_it_is(tmp_path: Path, operation: str, text: str | None) -> None:
    append(tmp_path, encode(10))
    add_commit(tmp_path, operation, text=text)

    report = find_table_position(str(tmp_path))

    assert get_position(report).topics == {"t": {0: 10}}
    assert get_position(report).table_version == 0
    assert report.notes == ("Versions 1 to 1 changed no row.",)


@pytest.mark.parametrize("operation", ["WRITE", "DELETE", "RESTORE", "TRUNCATE", "ANYTHING"])
def test_a_later_commit_without_a_position_makes_it_unknown(tmp_path: Path, operation: str) -> None:
    append(tmp_path, encode(10))
    add_commit(tmp_path, operation, text=None, changes=True)

    assert f"version 1 ({operation}) changed rows" in get_reason(find_table_position(str(tmp_path)))


@pytest.mark.parametrize("operation", ["DELETE", "RESTORE", "TRUNCATE"])
def test_a_commit_that_only_deletes_or_restores_carries_no_position(tmp_path: Path, operation: str) -> None:
    append(tmp_path, encode(10))
    add_commit(tmp_path, operation, text=encode(20), changes=True)

    assert "only deletes or restores" in get_reason(find_table_position(str(tmp_path)))


def test_a_write_of_no_rows_moves_the_position_only_if_it_states_one(tmp_path: Path) -> None:
    append(tmp_path, encode(10))
    append(tmp_path, None, rows=0)
    assert get_position(find_table_position(str(tmp_path))).topics == {"t": {0: 10}}

    append(tmp_path, encode(20), rows=0)
    assert get_position(find_table_position(str(tmp_path))).topics == {"t": {0: 20}}


def test_a_position_that_goes_back_is_that_of_another_job(tmp_path: Path) -> None:
    append(tmp_path, encode(20))
    append(tmp_path, None)
    append(tmp_path, encode(10))
    assert "version 0 states offset 20 of topic t, partition 0" in get_reason(find_table_position(str(tmp_path)))

    append(tmp_path, json.dumps({"u": {"0": 5}}))
    assert "another job" in get_reason(find_table_position(str(tmp_path)))

    overwrite(tmp_path, encode(10))
    append(tmp_path, encode(11))
    assert get_position(find_table_position(str(tmp_path))).topics == {"t": {0: 11}}

    overwrite(tmp_path, encode(9), predicate="n = 0")
    assert "version 5 states offset 11" in get_reason(find_table_position(str(tmp_path)))


def test_rows_of_another_writer_before_the_newest_commit_are_noted(tmp_path: Path) -> None:
    append(tmp_path, encode(10))
    append(tmp_path, None)
    append(tmp_path, encode(20))

    report = find_table_position(str(tmp_path))

    assert get_position(report).topics == {"t": {0: 20}}
    assert report.notes == ("Version 1 (WRITE) changed rows without a position.",)


@pytest.mark.parametrize("text", ["nightly run", '{"run": {"id": 7}}', '{"t": {"0": -1}}'])
def test_other_metadata_is_no_position(tmp_path: Path, text: str) -> None:
    append(tmp_path, text)

    assert "other `userMetadata`" in get_reason(find_table_position(str(tmp_path)))


def test_the_table_of_a_streaming_query_asks_for_its_checkpoint(tmp_path: Path) -> None:
    append(tmp_path, None)
    add_commit(tmp_path, "STREAMING UPDATE", text=None, changes=True)

    assert "name the checkpoint" in get_reason(find_table_position(str(tmp_path)))


def test_a_malformed_position_and_one_of_another_version_are_rejected(tmp_path: Path) -> None:
    append(tmp_path / "a", encode(-5))
    append(tmp_path / "b", encode(5, table={"version": 3}))

    for name, message in (("a", "partition 0 to be a whole number"), ("b", "got one of version 3")):
        with pytest.raises(LakeError, match=message):
            find_table_position(str(tmp_path / name))


def test_a_table_without_rows_has_no_position(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), pa.schema([("n", pa.int64())]))

    assert "no commit has written rows" in get_reason(find_table_position(str(tmp_path)))


def test_a_commit_that_the_log_no_longer_has_is_named(tmp_path: Path) -> None:
    append(tmp_path, encode(10))
    DeltaTable(str(tmp_path)).create_checkpoint()
    add_commit(tmp_path, "OPTIMIZE", text=None)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()

    with pytest.raises(LakeError, match="does not have version 0"):
        find_table_position(str(tmp_path))


def test_a_file_is_bound_to_the_version_of_its_table(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    append(tmp_path, None)
    assert "without a position" in get_reason(find_table_position(str(tmp_path)))

    file.write_text(encode(10))
    assert "does not name a version" in get_reason(find_table_position(str(tmp_path)))

    file.write_text(encode(10, table={"version": 0}))
    assert get_position(find_table_position(str(tmp_path))).table_version == 0
    add_commit(tmp_path, "OPTIMIZE", text=None)
    assert get_position(find_table_position(str(tmp_path))).table_version == 0

    append(tmp_path, None)
    assert "version 2 (WRITE) has written the newest rows" in get_reason(find_table_position(str(tmp_path)))
    file.write_text(encode(10, table={"version": 7}))
    assert "position of version 7" in get_reason(find_table_position(str(tmp_path)))


def test_commit_and_file_must_not_contradict_each_other(tmp_path: Path) -> None:
    append(tmp_path, encode(10))
    (tmp_path / FILE_NAME).write_text(encode(10, table={"version": 0}))
    assert get_position(find_table_position(str(tmp_path))).topics == {"t": {0: 10}}

    (tmp_path / FILE_NAME).write_text(encode(11, table={"version": 0}))
    assert "different offsets" in get_reason(find_table_position(str(tmp_path)))


def test_a_file_is_the_position_of_files_that_are_not_newer(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    data, file = tmp_path / "day=1" / "a.parquet", tmp_path / FILE_NAME
    data.write_bytes(b"PAR1")
    assert "neither commits nor a file" in get_reason(find_table_position(str(tmp_path)))

    file.write_text(encode(10))
    os.utime(data, ns=(1_000, 1_000))
    os.utime(file, ns=(1_000, 1_000))
    assert get_position(find_table_position(str(tmp_path))).topics == {"t": {0: 10}}

    os.utime(data, ns=(1_001, 1_001))
    assert "1 file of the table was written after it, such as `day=1/a.parquet`" in get_reason(
        find_table_position(str(tmp_path))
    )

    file.write_text(encode(10, table={"version": 1}))
    assert "the table has no versions" in get_reason(find_table_position(str(tmp_path)))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"{}"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / FILE_NAME).write_bytes(content)

    with pytest.raises(LakeError, match=FILE_NAME):
        find_table_position(str(tmp_path))


def snapshot(number: int, operation: str = "append", text: str | None = None, **summary: str) -> dict[str, Any]:
    further = summary | ({} if text is None else {PROPERTY: text})
    parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
    return {"snapshot-id": number, **parent, "summary": {"operation": operation, **further}}


def write_iceberg(
    table: Path, snapshots: Sequence[Mapping[str, Any]], *, name: str = "00001-a", current: int | None = None
) -> str:
    newest = snapshots[-1]["snapshot-id"] if snapshots else -1
    metadata = {"format-version": 2, "current-snapshot-id": current or newest, "snapshots": snapshots}
    (table / "metadata").mkdir(parents=True, exist_ok=True)
    (table / "metadata" / f"{name}.metadata.json").write_text(json.dumps(metadata))
    return str(table)


def test_a_snapshot_states_the_position(tmp_path: Path) -> None:
    uri = write_iceberg(
        tmp_path, [snapshot(1, text=encode(10)), snapshot(2, "overwrite", encode(20)), snapshot(3, "replace")]
    )

    report = find_table_position(uri)

    assert (get_position(report).topics, get_position(report).table_version) == ({"t": {0: 20}}, 2)
    assert "Later snapshots changed no row." in report.notes


@pytest.mark.parametrize(
    ("snapshots", "reason"),
    [
        ([snapshot(1, text=encode(10)), snapshot(2)], "snapshot 2 (append) changed rows without the property"),
        ([snapshot(1, text=encode(10)), snapshot(2, "delete", encode(10))], "only deletes rows"),
        ([], "no snapshot has written rows"),
    ],
)
def test_a_snapshot_without_a_position_makes_it_unknown(
    tmp_path: Path, snapshots: list[dict[str, Any]], reason: str
) -> None:
    assert reason in get_reason(find_table_position(write_iceberg(tmp_path, snapshots)))


def test_the_current_snapshot_counts_after_a_rollback_and_an_empty_commit_does_not(tmp_path: Path) -> None:
    snapshots = [snapshot(1, text=encode(10)), snapshot(2, text=encode(20))]
    assert get_position(find_table_position(write_iceberg(tmp_path / "a", snapshots, current=1))).topics == {
        "t": {0: 10}
    }

    empty = snapshot(3, **{"changed-partition-count": "0"})
    assert get_position(find_table_position(write_iceberg(tmp_path / "b", [*snapshots, empty]))).table_version == 2


@pytest.mark.parametrize(
    ("summary", "is_unchanged"),
    [
        ({}, True),
        ({"added-records": "0"}, True),
        ({"added-records": "1"}, False),
        ({"added-position-deletes": "1"}, False),
        ({"total-records": "4"}, False),
    ],
)
def test_a_write_of_no_rows_is_recognized_by_its_totals(
    tmp_path: Path, summary: dict[str, str], is_unchanged: bool
) -> None:
    totals = {"total-records": "3", "total-data-files": "1", "total-delete-files": "0"}
    snapshots = [snapshot(1, text=encode(10), **totals), snapshot(2, **(totals | summary))]

    position = find_table_position(write_iceberg(tmp_path, snapshots)).position

    assert isinstance(position, Position) is is_unchanged


def test_a_snapshot_whose_position_goes_back_is_that_of_another_job(tmp_path: Path) -> None:
    counts = {"total-records": "5", "added-records": "2"}
    snapshots = [snapshot(1, text=encode(20)), snapshot(2, "replace"), snapshot(3, text=encode(10), **counts)]
    assert "snapshot 1 states offset 20" in get_reason(find_table_position(write_iceberg(tmp_path / "a", snapshots)))

    snapshots[2] = snapshot(3, "overwrite", encode(10), **(counts | {"added-records": "5"}))
    assert get_position(find_table_position(write_iceberg(tmp_path / "b", snapshots))).topics == {"t": {0: 10}}


def test_metadata_that_is_ambiguous_expired_or_damaged_is_named(tmp_path: Path) -> None:
    two = write_iceberg(tmp_path / "a", [snapshot(1, text=encode())])
    write_iceberg(tmp_path / "a", [snapshot(1, text=encode(99))], name="00001-b")
    expired = write_iceberg(tmp_path / "b", [snapshot(2, "replace")])
    damaged = write_iceberg(tmp_path / "c", [])
    (tmp_path / "c" / "metadata" / "00001-a.metadata.json").write_text("{")

    for uri, message in (
        (two, "one newest metadata file"),
        (expired, "it has expired"),
        (damaged, "metadata of an Iceberg"),
    ):
        with pytest.raises(LakeError, match=message):
            find_table_position(uri)
    assert get_position(find_table_position(f"{two}/metadata/00001-a.metadata.json")).topics == {"t": {0: 10}}


def test_a_file_is_bound_to_a_snapshot(tmp_path: Path) -> None:
    uri = write_iceberg(tmp_path, [snapshot(1), snapshot(2), snapshot(3, "replace")])
    for version, is_known in ((1, False), (2, True), (3, True)):
        (tmp_path / FILE_NAME).write_text(encode(10, table={"version": version}))
        assert isinstance(find_table_position(uri).position, Position) is is_known

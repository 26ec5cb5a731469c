"""Errors of a driver whose table cannot be written or no longer shows its commits."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import commits, delta
from cutover.streaming.sink.committer import Committer, read_newest_epoch_record, read_record
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND


def rows(record: EpochRecord) -> pa.Table:
    return pa.Table.from_pylist([{"_kind": "partial", "_epoch": record.epoch, "_record": None}], schema=SCHEMA)


@pytest.fixture
def version(tmp_path: Path) -> Version:
    uri = str(tmp_path / "stream")
    delta.ensure(uri, SCHEMA, partition_by=["_kind"])
    return Version(pipeline="flights", result_fingerprint="f", lateness_fingerprint="l", number=0, uri=uri)


@pytest.fixture
def committer(version: Version) -> Committer:
    """Return a driver's committer behind its epoch 0."""
    committer = Committer(version, FIRST.run_id, DeltaTable(version.uri), reload_every=100)
    committer.commit(rows(FIRST), FIRST)
    return committer


def test_unwritable_separate_rows_are_reported_with_the_cause(
    version: Version, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        msg = "No space left on device\nat a place that only its makers know"
        raise OSError(msg)

    monkeypatch.setattr(commits, "transact", fail)

    with pytest.raises(LakeError) as refused:
        committer.add(rows(SECOND), SECOND.epoch)

    assert refused.value.text == (
        "Epoch log of flights: epoch 1: expected to write its data, got: No space left on device."
    )
    assert refused.value.runbook == "TableUnreadable"
    assert read_newest_epoch_record(DeltaTable(version.uri)) == FIRST


def forget(uri: str, first_version: int) -> None:
    """Delete a table's log entries from one version on."""
    for entry in (Path(uri) / "_delta_log").glob("*.json"):
        if int(entry.stem) >= first_version:
            entry.unlink()


@pytest.mark.parametrize(("first_version", "newest_epoch"), [(1, "none"), (2, "0")])
def test_removed_commits_are_not_attributed_to_another_driver(
    version: Version, committer: Committer, first_version: int, newest_epoch: str
) -> None:
    committer.commit(rows(SECOND), SECOND)
    forget(version.uri, first_version)

    with pytest.raises(
        LakeError, match=f"this driver committed epoch 1, newest epoch row is {newest_epoch} "
    ) as refused:
        committer.reload()
    assert refused.value.runbook == "EpochHistoryBroken"


def listed_file(uri: str, name: str) -> Path:
    folder = Path(uri) / "_kind=epoch"
    folder.mkdir(parents=True)
    return folder / name


@pytest.mark.parametrize("content", [b"no Parquet at all", b""], ids=["other bytes", "empty"])
def test_invalid_record_in_a_foreign_file_is_reported_on_one_line(version: Version, content: bytes) -> None:
    listed_file(version.uri, "theirs.parquet").write_bytes(content)

    with pytest.raises(LakeError) as refused:
        read_record(DeltaTable(version.uri), "_kind=epoch/theirs.parquet")

    assert "file `_kind=epoch/theirs.parquet` is listed and cannot be read: " in refused.value.text
    assert ("\n" in refused.value.text, refused.value.runbook) == (False, "TableUnreadable")


def test_record_in_a_file_without_its_columns_names_the_missing_ones(version: Version) -> None:
    pq.write_table(pa.table({"_epoch": [0]}), listed_file(version.uri, "theirs.parquet"))

    with pytest.raises(LakeError, match="cannot be read: expected columns _epoch, _record, got a file without _record"):
        read_record(DeltaTable(version.uri), "_kind=epoch/theirs.parquet")

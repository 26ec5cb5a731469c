"""Commits of a driver: reopened handles, byte counts, adopted files, and separately committed rows."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.engine import queries
from cutover.engine.usage import PathCost
from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import list_merged_spans
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.tables import checksums, commits, delta
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.sink import committer, files
from cutover.streaming.sink.committer import Committer, read_newest_epoch_record
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND

THIRD = replace(SECOND, epoch=2, start={0: 20}, end={0: 30})


def partial(epoch: int) -> pa.Table:
    return pa.Table.from_pylist([{"_kind": "partial", "_epoch": epoch, "_record": None}], schema=SCHEMA)


@pytest.fixture
def version(tmp_path: Path) -> Version:
    uri = str(tmp_path / "stream")
    delta.ensure(uri, SCHEMA, partition_by=["_kind"])
    return Version(pipeline="flights", result_fingerprint="f", lateness_fingerprint="l", number=0, uri=uri)


def driver(version: Version, run_id: str = FIRST.run_id, *, reload_every: int = 100) -> Committer:
    return Committer(version, run_id, DeltaTable(version.uri), reload_every=reload_every)


def sizes(uri: str, kind: str | None = None) -> int:
    """Sum the bytes of the files that a table lists, of one kind or all."""
    return sum(
        int(str(action["size_bytes"]))
        for action in delta.actions(delta.open_table(uri))
        if kind in {None, str(action["partition._kind"])}
    )


def epochs(table: DeltaTable) -> list[Any]:
    """List the epochs of all partial rows."""
    partial_rows = table.to_pyarrow_table(filters=[("_kind", "=", "partial")])
    return list(partial_rows.sort_by("_epoch")["_epoch"].to_pylist())


def test_a_driver_reopens_its_handle_after_the_configured_epochs(version: Version) -> None:
    committer = driver(version, reload_every=2)
    handles = [committer.table]
    for number in range(5):
        record = replace(FIRST, epoch=number, start={0: 10 * number}, end={0: 10 * number + 10})
        committer.commit(partial(number), record)
        handles.append(committer.table)

    assert [later is not earlier for earlier, later in pairwise(handles)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_a_driver_reloads_a_table_rewritten_between_two_epochs(version: Version) -> None:
    committer = driver(version)
    committer.commit(partial(0), FIRST)
    committer.commit(partial(1), SECOND)
    handle = committer.table
    DeltaTable(version.uri).optimize.compact()
    committer.commit(partial(2), THIRD)

    assert committer.table is not handle
    assert all(checksums.parse_name(path) for path in delta.paths(committer.table))


def test_written_bytes_are_those_of_all_added_files(version: Version) -> None:
    committer = driver(version)
    written_bytes = [committer.written_bytes]
    for record in (FIRST, SECOND):
        committer.commit(partial(record.epoch), record)
        written_bytes.append(committer.written_bytes)

    assert (written_bytes[0], written_bytes[2]) == (0, sizes(version.uri))
    assert 0 < written_bytes[1] < written_bytes[2]


def test_a_record_has_the_bytes_written_up_to_its_own_data(version: Version) -> None:
    committer = driver(version)
    committer.commit(partial(0), replace(FIRST, cost=PathCost(core_seconds=1.0)))
    first_record, bytes_before = committer.newest, committer.written_bytes
    committer.commit(partial(1), replace(SECOND, cost=PathCost(core_seconds=2.0)))
    both = sizes(version.uri, "partial")

    assert first_record is not None
    assert committer.newest is not None
    assert committer.newest.cost == PathCost(core_seconds=2.0, written_bytes=bytes_before + both // 2)
    assert first_record.cost == PathCost(core_seconds=1.0, written_bytes=both // 2)


def test_a_record_with_an_unknown_cost_has_no_bytes(version: Version) -> None:
    committer = driver(version)
    committer.commit(partial(0), FIRST)

    assert committer.newest == FIRST
    assert committer.newest.cost is None


def test_rows_may_be_committed_before_the_first_record(version: Version) -> None:
    committer = driver(version)
    committer.add(partial(0), 0)
    committer.commit(partial(0).slice(0, 0), FIRST)

    assert (epochs(committer.table), read_newest_epoch_record(committer.table)) == ([0], FIRST)


def test_separate_rows_after_another_drivers_epoch_fence_their_driver(version: Version) -> None:
    committer, other = driver(version), driver(version, "pid-2-two")
    other.commit(partial(0), replace(FIRST, run_id="pid-2-two"))

    with pytest.raises(LakeError, match=r"epoch 0 was committed by another driver \(pid 2\)") as refused:
        committer.add(partial(0), 0)
    assert refused.value.runbook == "StreamFenced"


def test_foreign_compacted_files_are_adopted_with_their_epochs(
    version: Version,
) -> None:
    committer = driver(version)
    committer.commit(partial(0), FIRST)
    committer.commit(partial(1), SECOND)
    DeltaTable(version.uri).optimize.compact(partition_filters=[("_kind", "=", "partial")])

    restarted = driver(version, "pid-2-two")

    assert all(checksums.parse_name(path) for path in delta.paths(restarted.table))
    assert list_merged_spans(restarted.table) == [(0, 1)]
    assert epochs(restarted.table) == [0, 1]


def test_the_same_epoch_of_another_driver_is_a_fence_and_no_rollback(version: Version) -> None:
    committer = driver(version)
    committer.commit(partial(0), FIRST)
    shutil.rmtree(version.uri)
    delta.ensure(version.uri, SCHEMA, partition_by=["_kind"])
    driver(version, "pid-2-two").commit(partial(0), replace(FIRST, run_id="pid-2-two"))

    with pytest.raises(LakeError, match=r"epoch 0 was committed by another driver \(pid 2\)") as refused:
        committer.reload()
    assert refused.value.runbook == "StreamFenced"


def test_an_epoch_that_storage_rejects_fails_with_the_cause_without_a_retry(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[None] = []

    def fail(*_: Any, **__: Any) -> None:
        attempts.append(None)
        msg = "No space left on device\nat a place that only its makers know"
        raise OSError(msg)

    committer = driver(version)
    monkeypatch.setattr(commits, "transact", fail)

    with pytest.raises(LakeError) as refused:
        committer.commit(partial(0), FIRST)

    assert refused.value.text == (
        f"Epoch log of flights: epoch 0 cannot be written to {version.uri}: No space left on device.\n"
        "Hint: nothing was committed; repair the storage and start again."
    )
    assert (refused.value.runbook, len(attempts)) == ("StreamNotRunning", 1)


def test_replaced_files_keep_the_newest_epoch(version: Version, tmp_path: Path) -> None:
    committer = driver(version)
    records = (FIRST, SECOND)
    for record in records:
        committer.commit(partial(record.epoch), record)
    old = [action for action in delta.actions(committer.table) if str(action["partition._kind"]) == "partial"]
    replaced_files = [
        files.File(
            path=str(action["path"]), kind="partial", first_epoch=n, last_epoch=n, size=int(str(action["size_bytes"]))
        )
        for n, action in enumerate(old)
    ]
    weight = checksums.weight_word(checksums.total(action.path for action in replaced_files))
    query = "SELECT e::BIGINT AS _epoch, NULL::VARCHAR AS _record FROM range(2) t(e)"
    with queries.open_duckdb() as connection:
        stem = checksums.new_stem("fold", 0, 1, weight)
        merged_file = files.export(connection, query, version.uri, stem, kind="partial", scratch=tmp_path)

    assert merged_file.data_change is False  # followers of the table's changes do not see its rows again
    assert committer.replace_files([merged_file, *map(files.make_removal, replaced_files)], reason="fold") is True
    assert list_merged_spans(delta.open_table(version.uri)) == [(0, 1)]
    assert read_newest_epoch_record(committer.table) == SECOND
    committer.commit(partial(2), THIRD)
    assert epochs(committer.table) == [0, 1, 2]


def test_a_version_with_known_epochs_but_no_table_is_rejected(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(high_water, "list_witnesses", lambda *_: ())
    settings: Any = None
    pipeline: Any = None
    shutil.rmtree(version.uri)
    lake = PipelineLake(settings, pipeline)
    assert committer.open_checked(lake, version) == (None, None)

    monkeypatch.setattr(high_water, "list_witnesses", lambda *_: ("a reader",))
    monkeypatch.setattr(table_weights, "check_not_removed", lambda *_: None)
    with pytest.raises(LakeError):
        committer.open_checked(lake, version)

"""What a driver's commits leave: handles taken anew, bytes counted, files of others taken over, rows apart."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.merged_epochs import list_merged_spans
from cutover.lake.integrity import high_water, table_weights
from cutover.lake.path_cost import PathCost
from cutover.lake.tables import checksums, commits, delta
from cutover.streaming.sink import fencing, files
from cutover.streaming.sink.committer import Committer
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
    """Return the bytes of the files that a table lists, of one kind or all."""
    return sum(
        int(str(action["size_bytes"]))
        for action in delta.actions(delta.open_table(uri))
        if kind in {None, str(action["partition._kind"])}
    )


def epochs(table: DeltaTable) -> list[Any]:
    """Return the epochs of all partial rows."""
    found = table.to_pyarrow_table(filters=[("_kind", "=", "partial")])
    return list(found.sort_by("_epoch")["_epoch"].to_pylist())


def test_a_driver_takes_a_handle_anew_after_so_many_epochs_and_not_before(version: Version) -> None:
    mine = driver(version, reload_every=2)
    handles = [mine.table]
    for number in range(5):
        record = replace(FIRST, epoch=number, start={0: 10 * number}, end={0: 10 * number + 10})
        mine.commit(partial(number), record)
        handles.append(mine.table)

    assert [after is not before for before, after in pairwise(handles)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_a_driver_looks_at_the_table_at_once_when_others_rewrote_it_between_two_epochs(version: Version) -> None:
    mine = driver(version)
    mine.commit(partial(0), FIRST)
    mine.commit(partial(1), SECOND)
    handle = mine.table
    DeltaTable(version.uri).optimize.compact()
    mine.commit(partial(2), THIRD)

    assert mine.table is not handle
    assert all(checksums.name_of(path) for path in delta.paths(mine.table))


def test_bytes_are_those_of_all_files_that_a_driver_has_added(version: Version) -> None:
    mine = driver(version)
    seen = [mine.written_bytes]
    for record in (FIRST, SECOND):
        mine.commit(partial(record.epoch), record)
        seen.append(mine.written_bytes)

    assert (seen[0], seen[2]) == (0, sizes(version.uri))
    assert 0 < seen[1] < seen[2]


def test_a_record_tells_the_bytes_of_its_driver_up_to_its_own_data(version: Version) -> None:
    mine = driver(version)
    mine.commit(partial(0), replace(FIRST, cost=PathCost(core_seconds=1.0)))
    first, before = mine.newest, mine.written_bytes
    mine.commit(partial(1), replace(SECOND, cost=PathCost(core_seconds=2.0)))
    both = sizes(version.uri, "partial")

    assert first is not None
    assert mine.newest is not None
    assert mine.newest.cost == PathCost(core_seconds=2.0, written_bytes=before + both // 2)
    assert first.cost == PathCost(core_seconds=1.0, written_bytes=both // 2)


def test_a_record_whose_cost_is_not_known_tells_no_bytes(version: Version) -> None:
    mine = driver(version)
    mine.commit(partial(0), FIRST)

    assert mine.newest == FIRST
    assert mine.newest.cost is None


def test_rows_may_stand_apart_before_the_first_record(version: Version) -> None:
    mine = driver(version)
    mine.add(partial(0), 0)
    mine.commit(partial(0).slice(0, 0), FIRST)

    assert (epochs(mine.table), fencing.newest(mine.table)) == ([0], FIRST)


def test_rows_apart_beside_another_driver_s_epoch_end_their_driver(version: Version) -> None:
    mine, other = driver(version), driver(version, "pid-2-two")
    other.commit(partial(0), replace(FIRST, run_id="pid-2-two"))

    with pytest.raises(LakeError, match=r"epoch 0 was committed by another driver \(pid 2\)") as refused:
        mine.add(partial(0), 0)
    assert refused.value.runbook == "StreamFenced"


def test_files_that_others_made_of_a_part_are_taken_over_with_the_epochs_that_they_may_be_of(
    version: Version,
) -> None:
    mine = driver(version)
    mine.commit(partial(0), FIRST)
    mine.commit(partial(1), SECOND)
    DeltaTable(version.uri).optimize.compact(partition_filters=[("_kind", "=", "partial")])

    after = driver(version, "pid-2-two")

    assert all(checksums.name_of(path) for path in delta.paths(after.table))
    assert list_merged_spans(after.table) == [(0, 1)]
    assert epochs(after.table) == [0, 1]


def test_a_table_that_holds_another_driver_s_same_epoch_is_a_fence_and_no_rollback(version: Version) -> None:
    mine = driver(version)
    mine.commit(partial(0), FIRST)
    shutil.rmtree(version.uri)
    delta.ensure(version.uri, SCHEMA, partition_by=["_kind"])
    driver(version, "pid-2-two").commit(partial(0), replace(FIRST, run_id="pid-2-two"))

    with pytest.raises(LakeError, match=r"epoch 0 was committed by another driver \(pid 2\)") as refused:
        mine.reload()
    assert refused.value.runbook == "StreamFenced"


def test_an_epoch_that_storage_does_not_take_is_said_with_the_cause_and_not_tried_again(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[None] = []

    def fail(*_: Any, **__: Any) -> None:
        tried.append(None)
        msg = "No space left on device\nat a place that only its makers know"
        raise OSError(msg)

    mine = driver(version)
    monkeypatch.setattr(commits, "transact", fail)

    with pytest.raises(LakeError) as refused:
        mine.commit(partial(0), FIRST)

    assert refused.value.text == (
        f"Epoch log of flights: epoch 0 cannot be written to {version.uri}: No space left on device.\n"
        "Hint: nothing was committed; repair the storage and start again."
    )
    assert (refused.value.runbook, len(tried)) == ("StreamNotRunning", 1)


def test_files_replaced_by_one_with_the_same_rows_are_replaced_under_the_newest_epoch(
    version: Version, tmp_path: Path
) -> None:
    mine = driver(version)
    records = (FIRST, SECOND)
    for record in records:
        mine.commit(partial(record.epoch), record)
    old = [action for action in delta.actions(mine.table) if str(action["partition._kind"]) == "partial"]
    gone = [
        files.File(path=str(one["path"]), kind="partial", first=n, last=n, size=int(str(one["size_bytes"])))
        for n, one in enumerate(old)
    ]
    weight = checksums.weight_word(checksums.total(one.path for one in gone))
    query = "SELECT e::BIGINT AS _epoch, NULL::VARCHAR AS _record FROM range(2) t(e)"
    with queries.connect() as connection:
        stem = checksums.new_stem("fold", 0, 1, weight)
        made = files.export(connection, query, version.uri, stem, kind="partial", scratch=tmp_path)

    assert made.data_change is False  # whoever follows the table's changes is not told its rows again
    assert mine.replace_files([made, *map(files.remove, gone)], why="fold") is True
    assert list_merged_spans(delta.open_table(version.uri)) == [(0, 1)]
    assert fencing.newest(mine.table) == SECOND
    mine.commit(partial(2), THIRD)
    assert epochs(mine.table) == [0, 1, 2]


def test_a_version_of_which_epochs_were_seen_and_whose_table_is_gone_is_refused(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(high_water, "list_witnesses", lambda *_: ())
    settings: Any = None
    pipeline: Any = None
    shutil.rmtree(version.uri)
    assert fencing.open_checked(settings, pipeline, version) == (None, None)

    monkeypatch.setattr(high_water, "list_witnesses", lambda *_: ("a reader",))
    monkeypatch.setattr(table_weights, "check_not_removed", lambda *_: None)
    with pytest.raises(LakeError):
        fencing.open_checked(settings, pipeline, version)

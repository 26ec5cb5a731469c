"""Facts of Delta handles that the fence relies on, so that a changed behaviour of an upgrade is noticed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import checksums, data_files, delta
from cutover.streaming.compaction import compactor
from cutover.streaming.sink import files
from cutover.streaming.sink.committer import Actions, Committer, read_newest_epoch_record
from tests.support.log.losses import LOSS
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND

THEIRS = replace(FIRST, run_id="pid-2-two")
THIRD = replace(FIRST, epoch=2, start={0: 20}, end={0: 30})


def rows(record: EpochRecord) -> pa.Table:
    row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
    return pa.Table.from_pylist([row], schema=SCHEMA)


@pytest.fixture
def version(tmp_path: Path) -> Version:
    new_version = Version(
        pipeline="flights",
        result_fingerprint="f",
        lateness_fingerprint="l",
        number=0,
        uri=str(tmp_path / "a folder" / "stream"),
    )
    delta.ensure(new_version.uri, SCHEMA, partition_by=["_kind"])
    return new_version


@pytest.fixture
def driver(version: Version) -> Callable[[str], Committer]:
    return lambda run_id: Committer(version, run_id, DeltaTable(version.uri), reload_every=100)


def test_second_driver_that_starts_later_continues(driver: Callable[[str], Committer]) -> None:
    driver("pid-1-one").commit(rows(FIRST), FIRST)
    second = driver("pid-2-two")
    second.commit(rows(SECOND), SECOND)

    assert second.newest == SECOND


def test_driver_that_missed_a_commit_is_rejected(driver: Callable[[str], Committer]) -> None:
    stale, other = driver("pid-1-one"), driver("pid-2-two")
    other.commit(rows(THEIRS), THEIRS)

    with pytest.raises(LakeError, match=r"epoch 0 was committed by another driver \(pid 2\)"):
        stale.commit(rows(FIRST), FIRST)


def test_rejected_driver_is_rejected_again(driver: Callable[[str], Committer]) -> None:
    stale, other = driver("pid-1-one"), driver("pid-2-two")
    other.commit(rows(THEIRS), THEIRS)
    for _ in range(2):
        with pytest.raises(LakeError, match="StreamFenced"):
            stale.commit(rows(FIRST), FIRST)


def test_own_commit_with_a_lost_response_is_found(version: Version, driver: Callable[[str], Committer]) -> None:
    committer, twin = driver("pid-1-one"), driver("pid-1-one")
    twin.commit(rows(FIRST), FIRST)  # as if the answer to our own commit had been lost
    committer.commit(rows(FIRST), FIRST)

    assert DeltaTable(version.uri).version() == 1


def test_stale_driver_is_rejected_when_it_reloads(driver: Callable[[str], Committer]) -> None:
    stale, other = driver("pid-1-one"), driver("pid-2-two")
    other.commit(rows(THEIRS), THEIRS)

    with pytest.raises(LakeError, match="StreamFenced"):
        stale.reload()


def test_fold_of_a_stale_driver_is_rejected(driver: Callable[[str], Committer]) -> None:
    driver("pid-1-one").commit(rows(FIRST), FIRST)
    stale, other = driver("pid-1-one"), driver("pid-2-two")
    other.commit(rows(SECOND), SECOND)

    with pytest.raises(LakeError, match="StreamFenced"):
        stale.replace_files([], reason="fold")


def folded(version: Version) -> AddAction:
    paths = delta.paths(DeltaTable(version.uri))
    stem = checksums.new_stem("fold", 0, 1, checksums.weight_word(checksums.total(paths)))
    both = pa.concat_tables([rows(FIRST), rows(SECOND)]).drop_columns(["_kind"])
    return data_files.write_data_file(version.uri, both, stem, partition={"_kind": "epoch"}, new_data=False)


def test_fold_of_rewritten_files_is_skipped_and_is_no_fence(
    version: Version, driver: Callable[[str], Committer]
) -> None:
    committer = driver("pid-1-one")
    committer.commit(rows(FIRST), FIRST)
    committer.commit(rows(SECOND), SECOND)
    group = [files.make_removal(file) for file in compactor.list_files(committer.table)]
    folded_file = folded(version)
    DeltaTable(version.uri).optimize.compact()

    assert not committer.replace_files([folded_file, *group], reason="fold")
    assert EpochLog(version.uri).records() == [FIRST, SECOND]
    committer.commit(rows(THIRD), THIRD)
    assert read_newest_epoch_record(DeltaTable(version.uri)) == THIRD


class Overtaken(Committer):
    """Committer whose folder is rewritten between a fold's read and its commit."""

    def _transact(self, added: Actions, properties: CommitProperties) -> None:
        DeltaTable(self.version.uri).optimize.compact()
        super()._transact(added, properties)


def test_fold_overtaken_by_a_rewrite_at_its_commit_is_skipped(version: Version) -> None:
    overtaken = Overtaken(version, "pid-1-one", DeltaTable(version.uri), reload_every=100)
    overtaken.commit(rows(FIRST), FIRST)
    overtaken.commit(rows(SECOND), SECOND)
    group = [files.make_removal(file) for file in compactor.list_files(overtaken.table)]
    folded_file = folded(version)

    assert not overtaken.replace_files([folded_file, *group], reason="fold")
    assert EpochLog(version.uri).records() == [FIRST, SECOND]
    assert overtaken.table.version() == 4  # the driver has taken the other one's files over
    assert all(checksums.parse_name(path) for path in delta.paths(overtaken.table))


def test_foreign_rewrite_is_no_fence(version: Version, driver: Callable[[str], Committer]) -> None:
    committer = driver("pid-1-one")
    committer.commit(rows(FIRST), FIRST)
    committer.commit(rows(SECOND), SECOND)
    DeltaTable(version.uri).optimize.compact()
    committer.commit(rows(THIRD), THIRD)

    assert read_newest_epoch_record(DeltaTable(version.uri)) == THIRD


def test_epoch_that_does_not_follow_is_never_written(version: Version, driver: Callable[[str], Committer]) -> None:
    with pytest.raises(LakeError, match="epoch 2 does not follow"):
        driver("pid-1-one").commit(rows(THIRD), THIRD)

    assert DeltaTable(version.uri).version() == 0


def test_epoch_may_start_after_recorded_losses(version: Version) -> None:
    loss = replace(LOSS, pipeline="flights", first=10, next=15)
    committer = Committer(version, "pid-1-one", DeltaTable(version.uri), reload_every=100, accepted=[loss])
    committer.commit(rows(FIRST), FIRST)
    shifted = replace(SECOND, start={0: 15})

    with pytest.raises(LakeError, match="epoch 1 does not follow"):
        committer.commit(rows(SECOND), SECOND)
    with pytest.raises(LakeError, match="epoch 1 does not follow"):
        committer.commit(rows(shifted), replace(shifted, topic_id="B"))
    committer.commit(rows(shifted), shifted)
    with pytest.raises(LakeError, match="epoch 2 does not follow"):
        committer.commit(rows(THIRD), replace(THIRD, start={0: 25}))

    assert EpochLog(version.uri).records() == [FIRST, shifted]


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"no Parquet")], ids=["gone", "damaged"])
def test_unreadable_newest_record_is_reported(
    version: Version, driver: Callable[[str], Committer], damage: Callable[[Path], object]
) -> None:
    driver("pid-1-one").commit(rows(FIRST), FIRST)
    damage(next(Path(version.uri).rglob("*.parquet")))

    with pytest.raises(LakeError, match=r"is listed and not there|expected the bytes that were committed") as refused:
        driver("pid-2-two")

    assert refused.value.runbook == "TableUnreadable"


def test_restored_table_is_rejected(version: Version, driver: Callable[[str], Committer]) -> None:
    committer = driver("pid-1-one")
    committer.commit(rows(FIRST), FIRST)
    committer.commit(rows(SECOND), SECOND)
    DeltaTable(version.uri).restore(1)

    with pytest.raises(LakeError, match="transaction says 1, newest epoch row is 0") as refused:
        driver("pid-2-two")

    assert refused.value.runbook == "EpochHistoryBroken"


@pytest.mark.parametrize("in_files", [False, True])
def test_a_mark_names_a_table_version_that_contains_its_epoch(
    version: Version, driver: Callable[[str], Committer], *, in_files: bool
) -> None:
    committer = driver("pid-1-one")
    if in_files:
        data = pa.Table.from_pylist([{"_epoch": 0}], schema=SCHEMA).drop_columns(["_kind"])
        stem = checksums.new_stem("epoch", 0)
        action = data_files.write_data_file(version.uri, data, stem, partition={"_kind": "partial"})
        committer.commit(rows(FIRST), FIRST, [action])
    else:
        committer.commit(rows(FIRST), FIRST)

    note = json.loads(Path(version.uri).with_name("newest.json").read_text(encoding="utf-8"))

    assert EpochLog(version.uri, note["table_version"]).newest() == FIRST

"""Commits that somebody's rewriting of files refuses: written again, counted, and given up after the third time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.errors import LakeError
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables import commits, delta
from cutover.streaming.sink import fencing
from cutover.streaming.sink.committer import ATTEMPTS, Committer
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND


def rows(record: EpochRecord) -> pa.Table:
    own = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
    return pa.Table.from_pylist([own, {"_kind": "partial", "_epoch": record.epoch, "_record": None}], schema=SCHEMA)


@pytest.fixture
def version(tmp_path: Path) -> Version:
    uri = str(tmp_path / "stream")
    delta.ensure(uri, SCHEMA, partition_by=["_kind"])
    return Version(pipeline="flights", result_fingerprint="f", lateness_fingerprint="l", number=0, uri=uri)


@pytest.fixture
def mine(version: Version) -> Committer:
    """Return a driver's committer behind its epoch 0."""
    committer = Committer(version, FIRST.run_id, DeltaTable(version.uri), reload_every=100)
    committer.commit(rows(FIRST), FIRST)
    return committer


def rewritten(uri: str, times: int) -> Callable[..., None]:
    """Return a write before which somebody rewrites the partial rows by hand, so many times."""
    left = [times]

    transact = commits.transact

    def write(*arguments: Any, **options: Any) -> None:
        if left[0]:
            left[0] -= 1
            found = DeltaTable(uri).to_pyarrow_table(partitions=[("_kind", "=", "partial")])
            write_deltalake(uri, pa.table(found).select(SCHEMA.names), mode="overwrite", predicate="_kind = 'partial'")
        transact(*arguments, **options)

    return write


def test_refused_commit_is_written_again_and_counted(
    version: Version, mine: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewritten(version.uri, ATTEMPTS - 1))
    mine.commit(rows(SECOND), SECOND)

    assert (mine.conflicts, fencing.newest(DeltaTable(version.uri))) == (ATTEMPTS - 1, SECOND)


def test_conflicts_are_forgotten_once_a_record_has_told_them(
    version: Version, mine: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewritten(version.uri, 1))
    mine.commit(rows(SECOND), SECOND)
    third = replace(SECOND, epoch=2, start={0: 20}, end={0: 30}, conflicts=mine.conflicts)
    mine.commit(rows(third), third)

    assert mine.conflicts == 0


def test_epoch_refused_three_times_ends_its_driver(
    version: Version, mine: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewritten(version.uri, ATTEMPTS))

    with pytest.raises(LakeError, match="epoch 1 was refused 3 times") as refused:
        mine.commit(rows(SECOND), SECOND)
    assert refused.value.runbook == "CommitConflictRateHigh"
    assert fencing.newest(DeltaTable(version.uri)) == FIRST

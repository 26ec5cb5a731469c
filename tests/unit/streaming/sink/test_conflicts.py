"""Commits rejected because of rewritten files: retried, counted, and failed after the third attempt."""

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
from cutover.streaming.sink.committer import ATTEMPTS, Committer, read_newest_epoch_record
from tests.unit.streaming.epochs import FIRST, SCHEMA, SECOND


def rows(record: EpochRecord) -> pa.Table:
    epoch_row = {"_kind": "epoch", "_epoch": record.epoch, "_record": record.to_json()}
    return pa.Table.from_pylist(
        [epoch_row, {"_kind": "partial", "_epoch": record.epoch, "_record": None}], schema=SCHEMA
    )


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


def rewrite_before_commits(uri: str, times: int) -> Callable[..., None]:
    """Build a write function before which a foreign writer rewrites the partial rows, `times` times."""
    remaining = [times]

    transact = commits.transact

    def write(*arguments: Any, **options: Any) -> None:
        if remaining[0]:
            remaining[0] -= 1
            partial_rows = DeltaTable(uri).to_pyarrow_table(partitions=[("_kind", "=", "partial")])
            write_deltalake(
                uri, pa.table(partial_rows).select(SCHEMA.names), mode="overwrite", predicate="_kind = 'partial'"
            )
        transact(*arguments, **options)

    return write


def test_rejected_commit_is_retried_and_counted(
    version: Version, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewrite_before_commits(version.uri, ATTEMPTS - 1))
    committer.commit(rows(SECOND), SECOND)

    assert (committer.conflicts, read_newest_epoch_record(DeltaTable(version.uri))) == (ATTEMPTS - 1, SECOND)


def test_conflicts_are_reset_once_recorded(
    version: Version, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewrite_before_commits(version.uri, 1))
    committer.commit(rows(SECOND), SECOND)
    third = replace(SECOND, epoch=2, start={0: 20}, end={0: 30}, conflicts=committer.conflicts)
    committer.commit(rows(third), third)

    assert committer.conflicts == 0


def test_epoch_rejected_three_times_ends_its_driver(
    version: Version, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "transact", rewrite_before_commits(version.uri, ATTEMPTS))

    with pytest.raises(LakeError, match="epoch 1 was rejected 3 times") as refused:
        committer.commit(rows(SECOND), SECOND)
    assert refused.value.runbook == "CommitConflictRateHigh"
    assert read_newest_epoch_record(DeltaTable(version.uri)) == FIRST

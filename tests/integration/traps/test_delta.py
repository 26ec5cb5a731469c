"""Behavior of delta-rs that the epoch log relies on, or has to work around. An upgrade that changes it fails here."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

APP = "flights/stream-0"
ROWS = pa.table({"n": pa.array([1], pa.int64())})


def commit(table: DeltaTable, epoch: int, *, app: str = APP, hooks: bool = False) -> None:
    """Append one row as an epoch of an application."""
    write_deltalake(
        table,
        ROWS,
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(app, epoch)]),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=hooks, cleanup_expired_logs=hooks),
    )


def rows(uri: str) -> int:
    return int(DeltaTable(uri).count())


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a table whose newest epoch is 1."""
    table = DeltaTable.create(str(tmp_path / "stream"), ROWS.schema)
    commit(table, 0)
    commit(table, 1)
    return str(tmp_path / "stream")


def last_json(uri: str) -> Path:
    return max((Path(uri) / "_delta_log").glob("*.json"))


def test_fresh_handle_accepts_the_same_epoch_again(uri: str) -> None:
    commit(DeltaTable(uri), 1)

    assert (rows(uri), DeltaTable(uri).transaction_version(APP)) == (3, 1)


def test_fresh_handle_accepts_a_lower_epoch(uri: str) -> None:
    commit(DeltaTable(uri), 0)

    assert rows(uri) == 3


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_stale_handle_is_refused_by_the_same_application_whatever_the_epoch(uri: str, epoch: int) -> None:
    stale = DeltaTable(uri)
    commit(DeltaTable(uri), 2)

    with pytest.raises(CommitFailedError):
        commit(stale, epoch)
    assert rows(uri) == 3


def test_stale_handle_is_refused_where_the_number_of_its_next_commit_is_free_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "short")
    table = DeltaTable.create(uri, ROWS.schema, configuration={"delta.logRetentionDuration": "interval 0 seconds"})
    commit(table, 0)
    stale = DeltaTable(uri)
    for epoch in range(1, 6):
        commit(table, epoch)
    tidied = DeltaTable(uri)
    tidied.create_checkpoint()
    tidied.cleanup_metadata()
    next_of_stale = Path(uri) / "_delta_log" / f"{stale.version() + 1:020}.json"
    assert not next_of_stale.exists()

    with pytest.raises(DeltaError):
        commit(stale, 1)

    assert not next_of_stale.exists()
    assert (rows(uri), DeltaTable(uri).transaction_version(APP)) == (6, 5)


def test_stale_handle_is_accepted_beside_another_application(uri: str) -> None:
    stale = DeltaTable(uri)
    commit(DeltaTable(uri), 2, app="another")

    commit(stale, 2)

    assert rows(uri) == 4


def test_handle_goes_on_from_its_own_commits(uri: str) -> None:
    table = DeltaTable(uri)

    commit(table, 2)
    commit(table, 3)

    assert table.transaction_version(APP) == 3


def test_stale_handle_s_rewrite_is_refused_by_the_application_s_transaction(uri: str) -> None:
    stale = DeltaTable(uri)
    commit(DeltaTable(uri), 2)

    with pytest.raises(CommitFailedError):
        write_deltalake(
            stale,
            ROWS,
            mode="overwrite",
            commit_properties=CommitProperties(app_transactions=[Transaction(APP, 1)]),
        )


@pytest.mark.parametrize("hooks", [False, True])
def test_only_commits_with_hooks_write_checkpoints(tmp_path: Path, hooks: bool) -> None:
    always = {"delta.checkpointInterval": "1"}
    table = DeltaTable.create(str(tmp_path), ROWS.schema, configuration=always)

    commit(table, 0, hooks=hooks)
    commit(table, 1, hooks=hooks)

    assert hooks == any((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))


def test_restored_table_keeps_the_newer_transaction(uri: str) -> None:
    DeltaTable(uri).restore(1)

    assert (rows(uri), DeltaTable(uri).transaction_version(APP)) == (1, 1)


def test_empty_last_commit_reads_as_a_version_without_rows_of_its_own(uri: str) -> None:
    last_json(uri).write_bytes(b"")

    assert (DeltaTable(uri).version(), rows(uri), DeltaTable(uri).transaction_version(APP)) == (2, 1, 0)


def test_deleted_last_commit_is_one_version_back_without_a_word(uri: str) -> None:
    last_json(uri).unlink()

    assert (DeltaTable(uri).version(), rows(uri)) == (1, 1)


def test_appends_work_while_a_data_file_is_missing(uri: str) -> None:
    next(Path(uri).glob("*.parquet")).unlink()

    commit(DeltaTable(uri), 2)

    assert DeltaTable(uri).transaction_version(APP) == 2


def test_user_metadata_stand_in_the_commit(uri: str) -> None:
    write_deltalake(
        DeltaTable(uri),
        ROWS,
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": "epoch 2"}),
    )
    lines = [json.loads(line) for line in last_json(uri).read_text(encoding="utf-8").splitlines()]

    assert [line["commitInfo"]["userMetadata"] for line in lines if "commitInfo" in line] == ["epoch 2"]

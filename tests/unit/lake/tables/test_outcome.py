"""Appends whose response was lost: the outcome is looked up, so that committed rows are never reported as missing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cutover.errors import LakeError
from cutover.lake.control import pins
from cutover.lake.control.versions import Version
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import GateEvent
from cutover.lake.tables import commits, delta
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Frozen:
    """Clock that always returns the same time."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


VERSION = Version(pipeline="p", result_fingerprint="f", lateness_fingerprint="l", number=0, uri="nowhere")
ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
WRITE = commits.transact


def loses_the_answer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next write succeed but lose its response."""

    def write(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(commits, "transact", WRITE)
        WRITE(*arguments, **options)
        raise error

    monkeypatch.setattr(commits, "transact", write)


def refuses(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    def write(*_: Any, **__: Any) -> None:
        raise DeltaError(message)

    monkeypatch.setattr(commits, "transact", write)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return delta.ensure(str(tmp_path / "table"), ROWS.schema)


@pytest.mark.parametrize("error", [DeltaError("timeout"), OSError(5, "lost"), CommitFailedError("version exists")])
def test_an_append_whose_response_was_lost_is_committed_once(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    loses_the_answer(error, monkeypatch)

    commits.append(table, ROWS)

    assert (DeltaTable(table.table_uri).to_pyarrow_table().num_rows, table.version()) == (2, 1)


def test_a_failed_append_reports_that_nothing_was_committed(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(monkeypatch, "no space left on device")
    write_deltalake(str(table.table_uri), ROWS, mode="append")  # a concurrent foreign append

    with pytest.raises(LakeError, match=r"no space left on device.*\nHint: nothing was committed"):
        commits.append(table, ROWS)


def test_an_outcome_that_cannot_be_looked_up_is_unknown(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*arguments: Any, **options: Any) -> None:
        WRITE(*arguments, **options)
        (Path(delta.local_root(table) or "") / "_delta_log").rename(Path(delta.local_root(table) or "") / "away")
        msg = "storage is gone"
        raise DeltaError(msg)

    monkeypatch.setattr(commits, "transact", write)

    with pytest.raises(LakeError, match="it is unknown whether it was committed") as refused:
        commits.append(table, ROWS)
    assert "nothing was committed" not in str(refused.value)


def test_a_concurrent_commit_of_another_process_is_detected(table: DeltaTable) -> None:
    late = DeltaTable(table.table_uri)
    turn = CommitProperties(app_transactions=[Transaction("p", 0)])
    commits.append(table, ROWS, commit=turn)

    with pytest.raises(CommitFailedError):
        commits.append(late, ROWS, commit=turn)


def test_a_loss_whose_response_was_lost_is_recorded_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(settings, "p", GateEvent)
    loses_the_answer(CommitFailedError("a concurrent transaction"), monkeypatch)

    assert journal.append(make_row(GateEvent, stage="SHADOW")) == 0
    assert [event.stage for event in journal.read()] == ["SHADOW"]


def test_a_pin_with_an_unknown_outcome_is_released(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    original_pin = pins.pin

    def pin(*arguments: Any, **options: Any) -> None:
        original_pin(*arguments, **options)
        msg = "it is unknown whether it was committed"
        raise LakeError(msg)

    monkeypatch.setattr(pins, "pin", pin)
    with (
        pytest.raises(LakeError, match="unknown whether it was committed"),
        pins.pin_for_reader(settings, VERSION, 3, holder="batch/1", clock=Frozen()),
    ):
        pass

    assert pins.list_pinned_epochs(settings, VERSION, now=NOW) == ()


def append_named(uri: str, number: int) -> None:
    properties = CommitProperties(custom_metadata={"n": str(number)})
    commits.append(delta.open_table(uri), ROWS, commit=properties)


def test_commits_are_numbered_by_their_log_entries(table: DeltaTable) -> None:
    for number in range(3):
        append_named(table.table_uri, number)
    handle = delta.open_table(table.table_uri)
    append_named(table.table_uri, 3)

    numbered = [(commit["version"], commit.get("n")) for commit in delta.list_commits(handle)]
    assert numbered == [(3, "2"), (2, "1"), (1, "0"), (0, None)]
    assert [commit["version"] for commit in delta.list_commits(handle, after=1)] == [3, 2]


def test_an_append_is_found_before_later_ones(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_late(uri: str) -> DeltaTable:
        opened = DeltaTable(uri)
        for number in range(3):
            append_named(uri, number)
        return opened

    loses_the_answer(DeltaError("timeout"), monkeypatch)
    monkeypatch.setattr(commits, "DeltaTable", open_late)
    commits.append(table, ROWS)

    assert delta.open_table(table.table_uri).version() == 4


def test_an_append_is_not_missing_if_a_later_entry_is_unreadable(
    table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_damaged(uri: str) -> DeltaTable:
        append_named(uri, 1)
        opened = DeltaTable(uri)
        Path(uri.removeprefix("file://"), "_delta_log", f"{1:020}.json").unlink()
        return opened

    loses_the_answer(DeltaError("timeout"), monkeypatch)
    monkeypatch.setattr(commits, "DeltaTable", open_damaged)

    with pytest.raises(LakeError, match="it is unknown whether it was committed"):
        commits.append(table, ROWS)

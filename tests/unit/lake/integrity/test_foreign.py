"""Foreign changes of our tables: reported unless they change no row or were reverted."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.lake.integrity import foreign_commits, table_weights
from cutover.lake.integrity.foreign_commits import Kind, TableChange
from cutover.lake.tables import checksums, commits, delta
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"n": pa.int64(), "text": pa.string()})


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"n": n, "text": f"row {n}"} for n in numbers], schema=SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Create a table with three own commits."""
    table = delta.ensure(str(tmp_path / "t"), SCHEMA)
    for n in range(3):
        commits.append(table, rows(10 * n, 10 * n + 1))
    return str(tmp_path / "t")


def weight(uri: str) -> int:
    return checksums.total(delta.paths(DeltaTable(uri)))


def overwrite(uri: str) -> None:
    write_deltalake(uri, rows(5), mode="overwrite")


CHANGES: list[tuple[str, Callable[[str], object], int, int]] = [
    ("UPDATE", lambda uri: DeltaTable(uri).update({"text": "'x'"}, predicate="n >= 10"), 4, 4),
    ("DELETE", lambda uri: DeltaTable(uri).delete("n = 1"), 1, 0),
    ("DELETE", lambda uri: DeltaTable(uri).delete(), 6, 0),
    ("DELETE", lambda uri: DeltaTable(uri).delete("n < 5"), 2, 0),
    ("WRITE", lambda uri: write_deltalake(uri, rows(7), mode="append"), 0, 1),
    ("WRITE", overwrite, 6, 1),
    ("WRITE", lambda uri: write_deltalake(uri, rows(), mode="overwrite"), 6, 0),
    ("RESTORE", lambda uri: DeltaTable(uri).restore(2), 2, 0),
]


NAMES = [f"{number}-{change[0]}" for number, change in enumerate(CHANGES)]


def require_change(uri: str, expected: int) -> TableChange:
    change = foreign_commits.find_change(DeltaTable(uri), expected)
    assert change is not None
    return change


@pytest.mark.parametrize(("operation", "do", "removed_rows", "added_rows"), CHANGES, ids=NAMES)
def test_a_change_is_named_with_its_version_engine_and_rows(
    uri: str, operation: str, do: Callable[[str], object], removed_rows: int, added_rows: int
) -> None:
    expected = weight(uri)
    do(uri)
    change = require_change(uri, expected)

    assert (change.kind, change.removed_rows, change.added_rows, change.base) == (
        Kind.FOREIGN,
        removed_rows,
        added_rows,
        3,
    )
    assert [(commit.version, commit.operation) for commit in change.commits] == [(4, operation)]
    assert "by delta-rs" in change.sentence
    assert f"`DeltaTable('{uri}').restore(3)` undoes it" in change.message("or not")


@pytest.mark.parametrize(("operation", "do", "removed_rows", "added_rows"), CHANGES, ids=NAMES)
def test_a_change_reverted_as_its_message_says_is_ignored(
    uri: str, operation: str, do: Callable[[str], object], removed_rows: int, added_rows: int
) -> None:
    del operation, removed_rows, added_rows
    expected = weight(uri)
    do(uri)
    DeltaTable(uri).restore(3)

    assert foreign_commits.find_change(DeltaTable(uri), expected) is None


def test_a_change_is_found_after_its_log_entry_is_deleted(uri: str) -> None:
    expected = weight(uri)
    DeltaTable(uri).delete("n < 5")
    DeltaTable(uri).create_checkpoint()
    for entry in Path(uri, "_delta_log").glob("*.json"):
        entry.unlink()
    change = require_change(uri, expected)

    assert (change.kind, change.commits, change.base) == (Kind.FOREIGN, (), None)
    assert "a commit that its log no longer has: an unknown number of rows" in change.sentence


def test_optimize_is_harmless_and_its_files_are_adopted(uri: str) -> None:
    expected = weight(uri)
    DeltaTable(uri).optimize.compact()
    change = require_change(uri, expected)
    assert (change.kind, change.removed_rows, change.added_rows) == (Kind.HARMLESS, 0, 0)

    table = delta.open_table(uri)
    table_weights.adopt_rewritten_files(table, change)

    assert foreign_commits.find_change(DeltaTable(uri), expected) is None
    assert DeltaTable(uri).to_pyarrow_dataset().count_rows() == 6


def test_an_update_after_an_optimize_is_named(uri: str) -> None:
    expected = weight(uri)
    DeltaTable(uri).optimize.compact()
    DeltaTable(uri).update({"text": "'x'"}, predicate="n = 0")

    assert (require_change(uri, expected).kind, require_change(uri, expected).removed_rows) == (Kind.FOREIGN, 1)


def test_a_change_is_named_after_later_own_commits(uri: str) -> None:
    expected = weight(uri)
    DeltaTable(uri).update({"text": "'x'"}, predicate="n = 0")
    table, stem = delta.open_table(uri), checksums.new_stem("rows")
    commits.append(table, rows(99), stem=stem)
    change = require_change(uri, (expected + checksums.compute_weight("", stem)) % (1 << 128))

    assert (change.kind, change.removed_rows, change.added_rows, change.base) == (Kind.FOREIGN, 1, 1, None)
    assert [commit.operation for commit in change.commits] == ["UPDATE"]


def test_an_own_unrecorded_commit_is_not_foreign(uri: str) -> None:
    expected = weight(uri)
    commits.append(delta.open_table(uri), rows(99))

    assert require_change(uri, expected).kind is Kind.UNFINISHED

"""Compaction of append-only tables: the same rows and transactions, and no duplicates with concurrent writers."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from cutover.engine import queries
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"n": pa.int64(), "text": pa.string()})


def append(table: DeltaTable, n: int) -> None:
    rows = pa.Table.from_pylist([{"n": n, "text": f"row {n}"}], schema=SCHEMA)
    commits.append(table, rows, commit=CommitProperties(app_transactions=[Transaction("p", n)]))


def numbers(uri: str, version: int | None = None) -> list[int]:
    with queries.open_duckdb() as connection:
        delta.relation(connection, "t", uri, version=version)
        return [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n").fetchall()]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a table of eight files."""
    place = str(tmp_path / "a table")
    table = delta.ensure(place, SCHEMA)
    for n in range(8):
        append(table, n)
    return place


def test_many_files_become_one_and_the_rows_stay(uri: str) -> None:
    version_before = int(DeltaTable(uri).version())

    assert commits.compact(uri, files=4)

    assert (len(DeltaTable(uri).file_uris()), numbers(uri)) == (1, [*range(8)])
    assert numbers(uri, version_before) == [*range(8)]
    assert DeltaTable(uri).transaction_version("p") == 7


def test_few_files_are_not_compacted(uri: str) -> None:
    assert not commits.compact(uri, files=8)
    assert len(DeltaTable(uri).file_uris()) == 8


def test_concurrent_append_succeeds(uri: str) -> None:
    stale = DeltaTable(uri)

    assert commits.compact(uri, files=4)
    rows = pa.Table.from_pylist([{"n": 8, "text": None}], schema=SCHEMA)
    commits.append(stale, rows)

    assert numbers(uri) == [*range(9)]


def test_a_late_compaction_changes_nothing(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = DeltaTable(uri)
    assert commits.compact(uri, files=4)
    monkeypatch.setattr(delta, "open_table", lambda _: stale)

    assert not commits.compact(uri, files=4)
    monkeypatch.undo()
    assert numbers(uri) == [*range(8)]


def test_clean_up_keeps_what_was_listed_today(uri: str) -> None:
    version_before = int(DeltaTable(uri).version())
    commits.compact(uri, files=4)

    commits.clean(uri)

    assert numbers(uri, version_before) == [*range(8)]

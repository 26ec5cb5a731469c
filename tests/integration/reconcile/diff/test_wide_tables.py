"""`cutover diff` takes time and memory in proportion to the columns of a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.settings import ReadSettings, Settings
from cutover.sources.binding import types_of

COLUMNS = 220


class RecordingConnection:
    """A connection that keeps the text of each query."""

    def __init__(self, connection: Any, executed: list[str]) -> None:
        self._connection, self._executed = connection, executed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, query: str, *parameters: Any) -> Any:
        self._executed.append(query)
        return self._connection.execute(query, *parameters)


def write_table(path: Path, changed_cell: float) -> str:
    columns = {f"c{n}": [n + 0.25, changed_cell if n == 77 else n + 0.5] for n in range(COLUMNS)}
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"k": [1, 1], **columns}), path)
    else:
        rows: list[list[Any]] = [["k", *columns], *([1, *(cells[row] for cells in columns.values())] for row in (0, 1))]
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(path)


def compare_recorded(folder: Path, kind: str, memory: str = "120MB") -> tuple[list[str], list[str]]:
    """Compare two wide tables; return the columns that differ, and the queries."""
    executed: list[str] = []
    connect = queries.open_duckdb

    @contextmanager
    def record(bounds: queries.Bounds | None = None) -> Iterator[RecordingConnection]:
        with connect(bounds) as connection:
            yield RecordingConnection(connection, executed)

    left, right = (write_table(folder / f"{name}.{kind}", cell) for name, cell in (("l", 0.5), ("r", 0.75)))
    settings = Settings(home=folder, read=ReadSettings(memory=memory))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "open_duckdb", record)
        tables = compare_tables(DiffRequest(expected=left, actual=right, key=("k",)), settings)
    return [cell.measure for cell in tables.finding.differences], executed


@pytest.fixture(scope="module")
def queries_of_csv(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the queries that a comparison of wide files of CSV executes."""
    different, executed = compare_recorded(tmp_path_factory.mktemp("wide"), "csv")
    assert different == ["c77"]
    return executed


def test_no_query_filters_an_aggregate_for_each_column(tmp_path: Path) -> None:
    different, executed = compare_recorded(tmp_path, "parquet")

    assert different == ["c77"]
    assert max(query.count("FILTER (") for query in executed) < 4
    assert 10 < max(query.count("count(CASE WHEN") for query in executed) < COLUMNS


@pytest.mark.quick
def test_no_query_of_csv_filters_an_aggregate_for_each_column(queries_of_csv: list[str]) -> None:
    assert max(query.count("FILTER (") for query in queries_of_csv) < 4


def test_cells_without_a_type_are_counted_by_the_same_expressions_for_all_columns(queries_of_csv: list[str]) -> None:
    counting = [query for query in queries_of_csv if "unnest(range(" in query]

    assert [query.count("regexp_full_match") for query in counting] == [1, 1]


def test_a_wide_table_is_read_by_as_many_threads_as_have_memory(queries_of_csv: list[str]) -> None:
    assert "SET threads = 1" in queries_of_csv


def test_too_little_memory_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="CUTOVER_READ__MEMORY="):
        compare_recorded(tmp_path, "csv", memory="30MB")


def test_columns_keep_their_order_however_many_there_are() -> None:
    names = [f"c{n}" for n in range(2_100)]
    with queries.open_duckdb() as connection:
        connection.execute(f"CREATE TEMP VIEW many_columns AS SELECT {', '.join(f'1 AS {name}' for name in names)}")
        assert [*types_of(connection, "many_columns")] == names

"""Tables of DuckDB files, read where they lie, and of other databases, by Ibis."""

import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.errors import DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.sources.binding import open_binder
from cutover.sources.staging import Selection, TimeRange

LARGEST = 2**127 - 1  # of HUGEINT, which neither Arrow nor Parquet holds


def make_duckdb(folder: Path, *statements: str) -> str:
    with duckdb.connect(folder / "shop.duckdb") as connection:
        for statement in statements:
            connection.execute(statement)
    return f"duckdb://{folder}/shop.duckdb"


def make_sqlite(folder: Path, *statements: str) -> str:
    with sqlite3.connect(folder / "shop.sqlite") as connection:
        for statement in statements:
            connection.execute(statement)
    return f"sqlite://{folder}/shop.sqlite"


def compare(left: str, right: str, settings: Settings | None = None, **options: Any) -> Report:
    return compare_tables(DiffRequest(expected=left, actual=right, key=("k",), **options), settings)


def test_a_duckdb_table_is_compared_exactly(tmp_path: Path, settings: Settings) -> None:
    address = make_duckdb(
        tmp_path,
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.daily (k INTEGER, h HUGEINT, v DECIMAL(10, 2), paid TIMESTAMPTZ)",
        f"INSERT INTO sales.daily VALUES (1, {LARGEST}, 1.5, '2024-01-01 00:00:00+00')",  # noqa: S608 -- of a test
        "CREATE TABLE other AS SELECT k, h - (k = 1)::INTEGER AS h, v, paid FROM sales.daily",
    )

    for limits in (settings, None):
        assert compare(f"{address}#sales.daily", f"{address}#sales.daily", limits).finding.verdict is Verdict.CONSISTENT
        assert compare(f"{address}#sales.daily", f"{address}#other", limits).finding.rows.changed == 1


def test_a_duckdb_table_or_file_that_is_missing_is_named(tmp_path: Path) -> None:
    address = make_duckdb(tmp_path, "CREATE TABLE t (k INTEGER)")

    with pytest.raises(DefinitionError, match=r"got `nothing`[\s\S]*main\.t"):
        compare(f"{address}#nothing", f"{address}#t")
    with pytest.raises(DefinitionError, match=r"found none at `.*none\.duckdb`"):
        compare(address.replace("shop", "none") + "#t", f"{address}#t")
    with pytest.raises(DefinitionError, match=r"got a DuckDB database\.\nHint: `duckdb:///.*shop\.duckdb#TABLE`"):
        compare(str(tmp_path / "shop.duckdb"), f"{address}#t")


def test_a_duckdb_file_is_free_again_after_the_comparison(tmp_path: Path) -> None:
    address = make_duckdb(tmp_path, "CREATE TABLE t AS SELECT 1 AS k, 2 AS v")
    compare(f"{address}#t", f"{address}#t")

    with duckdb.connect(tmp_path / "shop.duckdb") as connection:
        connection.execute("INSERT INTO t VALUES (2, 3)")
    assert compare(f"{address}#t", f"{address}#t").finding.rows.compared == 2


def test_a_sqlite_table_is_read_by_ibis(tmp_path: Path, settings: Settings) -> None:
    address = make_sqlite(
        tmp_path,
        "CREATE TABLE t (k INTEGER NOT NULL, v TEXT, n DECIMAL(10, 2), f REAL, b BLOB)",
        "INSERT INTO t VALUES (1, 'a', 1.5, 0.1, x'aa'), (2, NULL, NULL, NULL, NULL)",
    )
    file = tmp_path / "t.parquet"
    columns = {
        "k": pa.array([1, 2], pa.int64()),
        "v": ["a", None],
        "n": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "f": [0.1, None],
        "b": [b"\xaa", None],
    }
    pq.write_table(pa.table(columns), file)

    report = compare(f"{address}#t", str(file), settings)

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2), report.finding.notes
    assert "The expected side was read by one statement." in report.finding.notes
    assert [*(settings.home / "tmp" / "duckdb").glob("*")] == []


def test_a_value_that_is_none_of_its_columns_type_is_an_error_without_the_value(tmp_path: Path) -> None:
    address = make_sqlite(tmp_path, "CREATE TABLE t (k INTEGER, v REAL)", "INSERT INTO t VALUES (1, 'geheim')")

    with pytest.raises(LakeError, match="expected a table that Ibis can read") as raised:
        compare(f"{address}#t", f"{address}#t")
    assert "geheim" not in str(raised.value)


def test_types_that_are_not_read_are_rejected_by_column(tmp_path: Path) -> None:
    address = make_sqlite(tmp_path, "CREATE TABLE t (k INTEGER, v JSON)", "INSERT INTO t VALUES (1, '{}')")

    with pytest.raises(DefinitionError, match=r"Column `v` of the expected side.*\n.*--exclude v"):
        compare(f"{address}#t", f"{address}#t")
    assert compare(f"{address}#t", f"{address}#t", excluded=("v",)).finding.verdict is Verdict.CONSISTENT


def test_a_missing_table_and_a_missing_driver_are_named(tmp_path: Path) -> None:
    address = make_sqlite(tmp_path, "CREATE TABLE t (k INTEGER)")

    with pytest.raises(LakeError, match="nothing"):
        compare(f"{address}#nothing", f"{address}#t")
    with pytest.raises(DefinitionError, match=r"driver of `mysql`.*\n.*ibis-framework\[mysql\]"):
        compare("mysql://ann@127.0.0.1:1/shop#t", f"{address}#t")


def test_json_of_duckdb_is_rejected_unless_its_texts_are_meant(tmp_path: Path) -> None:
    address = make_duckdb(tmp_path, """CREATE TABLE t AS SELECT 1 AS k, '{"a": 1}'::JSON AS v""")

    with pytest.raises(DefinitionError, match=r"Column `v` of the expected side.* got JSON\.\n.*--type v=text"):
        compare(f"{address}#t", f"{address}#t")
    assert compare(f"{address}#t", f"{address}#t", types={"v": "VARCHAR"}).finding.verdict is Verdict.CONSISTENT


def test_a_relative_path_names_a_duckdb_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_duckdb(tmp_path, "CREATE TABLE t AS SELECT 1 AS k")
    monkeypatch.chdir(tmp_path.parent)

    for address in (f"duckdb://{tmp_path.name}/shop.duckdb#t", f"duckdb:///{tmp_path.name}/shop.duckdb#t"):
        assert compare(address, address).finding.verdict is Verdict.CONSISTENT


def test_a_range_is_selected_in_a_duckdb_table(tmp_path: Path) -> None:
    address = make_duckdb(
        tmp_path, "CREATE TABLE t AS SELECT n AS k, DATE '2024-01-01' + n::INTEGER AS day FROM range(3) r(n)"
    )
    start = 1_704_153_600_000_000  # 2024-01-02

    with duckdb.connect() as connection, open_binder(connection, None) as binder:
        binder.bind("rows", f"{address}#t", None, Selection(times=TimeRange(column="day", start=start)))
        assert connection.execute("SELECT k FROM rows ORDER BY k").fetchall() == [(1,), (2,)]

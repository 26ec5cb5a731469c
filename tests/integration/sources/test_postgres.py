"""Tables of PostgreSQL, on a real server: exact values, one snapshot, and refusals that name the column."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.cli import app
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.sources import postgres, staging
from cutover.sources.addresses import parse_table_address
from cutover.sources.binding import open_binder
from cutover.sources.staging import Selection, TimeRange
from tests.support.servers.postgres import running_server

AT = datetime(2024, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server() as server:
        yield server


def execute(address: str, *statements: str) -> None:
    with psycopg.connect(address) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make_table(address: str, columns: str, *rows: str) -> str:
    """Make the table `t` with a key and some columns; return its address."""
    values = [f"INSERT INTO t VALUES ({n}, {row})" for n, row in enumerate(rows)]  # noqa: S608 -- of a test
    execute(address, "DROP TABLE IF EXISTS t CASCADE", f"CREATE TABLE t (k bigint, {columns})", *values)
    return f"{address}#t"


def write(path: Path, cells: list[Any], kind: pa.DataType | None = None) -> str:
    """Write a Parquet file with a key and the column `v`; return its path."""
    pq.write_table(pa.table({"k": list(range(len(cells))), "v": pa.array(cells, kind)}), path)
    return str(path)


def compare(left: str, right: str, **options: Any) -> Report:
    return compare_tables(DiffRequest(expected=left, actual=right, key=("k",), **options))


SOME_UUID = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
EXACT: dict[str, tuple[str, list[str], list[Any], pa.DataType]] = {
    "decimals": ("numeric(12,2)", ["1.50", "-0.01", "NULL"], [Decimal("1.50"), Decimal("-0.01"), None],
        pa.decimal128(12, 2)),
    "decimals of 38 digits": ("numeric(38,10)", ["1234567890123456789012345678.0123456789"],
        [Decimal("1234567890123456789012345678.0123456789")], pa.decimal128(38, 10)),
    "decimals without limits": ("numeric", ["0.1", "12345678901234567890"],
        [Decimal("0.1"), Decimal(12345678901234567890)], pa.decimal128(30, 5)),
    "decimals of money": ("money", ["'1.25'"], [Decimal("1.25")], pa.decimal128(10, 2)),
    "a negative scale": ("numeric(3,-2)", ["1249"], [1200], pa.int64()),
    "NaN": ("numeric(10,2)", ["'NaN'", "1.5"], [float("nan"), 1.5], pa.float64()),
    "infinity": ("numeric", ["'Infinity'", "'-Infinity'", "2"], [float("inf"), float("-inf"), 2.0], pa.float64()),
    "doubles": ("float8", ["0.1", "'NaN'", "1e308", "5e-324"], [0.1, float("nan"), 1e308, 5e-324], pa.float64()),
    "floats": ("float4", ["0.1", "16777217"], [0.1, 16777216.0], pa.float32()),
    "integers": ("bigint", ["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)], pa.int64()),
    "moments": ("timestamptz", ["'2024-03-01 14:30:15.123456+02'", "NULL"], [AT, None], pa.timestamp("us", "UTC")),
    "times": ("timestamp", ["'2024-03-01 12:30:15.123456'"], [AT.replace(tzinfo=None)], pa.timestamp("us")),
    "dates": ("date", ["'2024-02-29'", "'9999-12-31'"], [date(2024, 2, 29), date(9999, 12, 31)], pa.date32()),
    "clocks": ("time", ["'23:59:59.999999'"], [time(23, 59, 59, 999999)], pa.time64("us")),
    "uuids": ("uuid", [f"'{SOME_UUID}'"], [SOME_UUID.bytes], pa.uuid()),
    "texts": ("text", ["''", "NULL", "E'a\\n\"b\",\\\\c'", "'NULL'", "'\u202e\u00e9'"],
        ["", None, 'a\n"b",\\c', "NULL", "\u202e\u00e9"], pa.string()),
    "padded texts": ("char(5)", ["'ab'"], ["ab"], pa.string()),
    "bytes": ("bytea", ["'\\xdeadbeef'", "''"], [b"\xde\xad\xbe\xef", b""], pa.binary()),
    "truth values": ("boolean", ["true", "false", "NULL"], [True, False, None], pa.bool_()),
    "arrays": ("int[]", ["'{1,NULL,3}'", "'{}'", "NULL"], [[1, None, 3], [], None], pa.list_(pa.int32())),
    "arrays of texts": ("text[]", ["'{\"a,b\",NULL,\"\",\"NULL\"}'"], [["a,b", None, "", "NULL"]],
        pa.list_(pa.string())),
    "arrays of moments": ("timestamptz[]", ["ARRAY['2024-03-01 14:30:15.123456+02'::timestamptz]"], [[AT]],
        pa.list_(pa.timestamp("us", "UTC"))),
}  # fmt: skip


@pytest.mark.quick("decimals without limits", "NaN")
@pytest.mark.parametrize("case", EXACT)
def test_values_of_the_server_equal_those_of_parquet(address: str, tmp_path: Path, case: str) -> None:
    kind, literals, cells, arrow_type = EXACT[case]
    table = make_table(address, f"v {kind}", *literals)
    array = pa.array(cells, arrow_type)
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": list(range(len(cells))), "v": array}), file)

    for left, right in ((table, str(file)), (str(file), table), (table, table)):
        report = compare(left, right)
        assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, len(cells)), (
            report.finding.notes
        )


@pytest.mark.parametrize(
    ("kind", "ours", "other", "arrow_type"),
    [
        ("numeric", "0.1", Decimal("0.10001"), pa.decimal128(10, 5)),
        ("numeric(10,2)", "'NaN'", Decimal("0.00"), pa.decimal128(10, 2)),
        ("numeric(10,2)", "'NaN'", None, pa.decimal128(10, 2)),
        ("numeric", "12345678901234567890123456789012345678901", 1.2345678901234568e40, pa.float64()),
        ("text", "''", None, pa.string()),
        ("date", "'infinity'", None, pa.date32()),
        ("timestamptz", "'infinity'", None, pa.timestamp("us", "UTC")),
        ("timestamptz", "'2024-03-01 14:30:15.123457+02'", AT, pa.timestamp("us", "UTC")),
        ("int[]", "'{}'", None, pa.list_(pa.int32())),
    ],
)
def test_other_values_differ(
    address: str, tmp_path: Path, kind: str, ours: str, other: Any, arrow_type: pa.DataType
) -> None:
    table = make_table(address, f"v {kind}", ours)

    report = compare(table, write(tmp_path / "t.parquet", [other], arrow_type))

    assert (report.finding.verdict, report.finding.rows.changed) == (Verdict.DIVERGED, 1)


@pytest.mark.parametrize(
    "kind", ["json", "jsonb", "interval", "inet", "int4range", "numeric(5,1)[]", "timetz", "bit(3)", "xml"]
)
def test_types_without_one_text_for_each_value_are_rejected_by_name(address: str, tmp_path: Path, kind: str) -> None:
    table = make_table(address, f"v {kind}, w int", "NULL, 1")
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [0], "v": pa.array([None], pa.string()), "w": pa.array([1], pa.int32())}), file)

    with pytest.raises(DefinitionError, match=r"Column `v` of the expected side.*\n.*--type v=text.*--exclude v"):
        compare(table, str(file))
    assert compare(table, str(file), excluded=("v",)).finding.verdict is Verdict.CONSISTENT
    assert compare(table, str(file), types={"v": "VARCHAR"}).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(
    ("kind", "value"), [("int[]", "'{{1,2},{3,4}}'"), ("text[]", "'{{a},{b}}'"), ("date", "'0044-03-15 BC'")]
)
def test_a_value_that_the_engine_does_not_hold_is_rejected_without_the_value(
    address: str, kind: str, value: str
) -> None:
    table = make_table(address, f"v {kind}", value)

    with pytest.raises(LakeError, match=r"got one that it does not[\s\S]*--exclude") as raised:
        compare(table, table)
    assert "0044" not in str(raised.value)


def test_domains_enums_views_and_quoted_names_are_read(address: str) -> None:
    execute(
        address,
        'DROP SCHEMA IF EXISTS "Sales" CASCADE',
        'CREATE SCHEMA "Sales"',
        'CREATE DOMAIN "Sales".euro AS numeric(12,2)',
        "CREATE TYPE \"Sales\".mood AS ENUM ('good', 'bad')",
        'CREATE TABLE "Sales"."Daily Sums" (k bigint, v "Sales".euro, m "Sales".mood)',
        'INSERT INTO "Sales"."Daily Sums" VALUES (1, 2.5, \'bad\')',
        'CREATE VIEW "Sales".v AS SELECT * FROM "Sales"."Daily Sums"',
    )

    report = compare(f"{address}#Sales.Daily Sums", f'{address}#"Sales".v')

    assert report.finding.verdict is Verdict.CONSISTENT
    with pytest.raises(DefinitionError, match=r"got `nothing`[\s\S]*Sales.Daily Sums"):
        compare(f"{address}#nothing", f"{address}#nothing")
    with pytest.raises(DefinitionError, match=r"expected `#schema.table`"):
        compare(address, address)


def test_columns_that_differ_in_case_alone_are_rejected(address: str) -> None:
    table = make_table(address, 'v int, "V" int', "1, 2")

    with pytest.raises(DefinitionError, match="differ in more than case, got `v` and `V`"):
        compare(table, table)


@pytest.mark.parametrize("column", ['a"b', "a b", "a\nb", "{}", "%s", "select", "\u00e9", "a,b"])
def test_any_name_of_a_column_is_read(address: str, column: str) -> None:
    table = make_table(address, psycopg.sql.Identifier(column).as_string(None) + " int", "1", "NULL")

    report = compare(table, table)

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)


def test_a_table_with_nulls_alone_or_without_rows_is_read(address: str) -> None:
    execute(address, "DROP TABLE IF EXISTS n", "CREATE TABLE n (k bigint)", "INSERT INTO n VALUES (NULL), (NULL)")

    assert compare(f"{address}#n", f"{address}#n").finding.rows.compared == 2
    execute(address, "DELETE FROM n")
    assert compare(f"{address}#n", f"{address}#n").finding.verdict is Verdict.NOT_COMPARABLE


def test_a_row_that_is_too_long_is_rejected(address: str) -> None:
    table = make_table(address, "v text", "repeat('x', 40000000)")

    with pytest.raises(LakeError, match="expected rows of at most 16,777,216 bytes"):
        compare(table, table)


def test_a_policy_that_hides_rows_is_an_error_and_no_smaller_table(address: str) -> None:
    table = make_table(address, "v int", "1", "2")
    execute(
        address,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT SELECT ON t TO reader",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY part ON t USING (v = 1)",
    )

    with pytest.raises(LakeError, match=r"right to read all of its rows[\s\S]*BYPASSRLS"):
        compare(table, table.replace("cutover@", "reader@"))
    execute(address, "DROP OWNED BY reader")


def test_rows_that_are_written_meanwhile_are_in_no_part(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(address, "v numeric(10,2)", *["1"] * 200, "'NaN'")
    reads = []

    def stage(*arguments: Any) -> Path:
        execute(address, "DELETE FROM t WHERE k < 100", "INSERT INTO t SELECT n, 5 FROM generate_series(500, 600) n")
        reads.append(arguments)
        return staged(*arguments)

    staged = staging.stage_batches
    monkeypatch.setattr(postgres, "stage_batches", stage)
    with duckdb.connect() as connection, open_binder(connection, None) as binder:
        binder.bind("rows", f"{address}#t")
        counted = connection.execute("SELECT count(*), min(k), max(k) FROM rows").fetchall()

    assert len(reads) == 2  # the column with NaN was read again, from the same snapshot
    assert counted == [(201, 0, 200)]


def test_position_and_rows_come_from_one_snapshot(address: str, tmp_path: Path) -> None:
    make_table(address, "v int", "1")
    execute(address, "DROP TABLE IF EXISTS cutover_position", "CREATE TABLE cutover_position (position jsonb)")
    execute(address, "INSERT INTO cutover_position VALUES ('{\"at\": 1}')")
    server = parse_table_address(f"{address}#t")
    assert server is not None

    with postgres.open_postgres_snapshot(server) as snapshot, duckdb.connect() as engine:
        position = snapshot.fetch_rows(psycopg.sql.SQL("SELECT position FROM cutover_position"))
        execute(address, "UPDATE cutover_position SET position = '{\"at\": 2}'", "INSERT INTO t VALUES (1, 2)")
        rows = snapshot.stage(engine, "t", Selection(), tmp_path)

    assert (position, pq.read_metadata(rows.path).num_rows) == ([({"at": 1},)], 1)


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_a_range_of_windows_is_selected_by_the_server(address: str, kind: str) -> None:
    make_table(address, f"v {kind}", "'2024-01-01'", "'2024-01-02'", "'2024-01-03'", "NULL")
    day = 1_704_153_600_000_000  # 2024-01-02

    with duckdb.connect() as connection, open_binder(connection, None) as binder:
        times = TimeRange(column="v", start=day, end=day + 1)
        binder.bind("rows", f"{address}#t", None, Selection(times=times))
        rows = connection.execute("SELECT k FROM rows").fetchall()

    assert rows == [(1,)]

    with duckdb.connect() as connection, open_binder(connection, None) as binder:
        of_no_time = Selection(times=TimeRange(column="k", start=1))
        with pytest.raises(DefinitionError, match="`k`: expected a date or a timestamp"):
            binder.bind("rows", f"{address}#t", None, of_no_time)


def test_tolerances_and_maps_work_on_columns_of_the_server(address: str, tmp_path: Path) -> None:
    execute(
        address, "DROP TABLE IF EXISTS o", "CREATE TABLE o (k int, total numeric)", "INSERT INTO o VALUES (0, 1.001)"
    )

    report = compare(
        write(tmp_path / "t.parquet", [Decimal("1.00")], pa.decimal128(10, 2)),
        f"{address}#o",
        names={"v": "total"},
        tolerances={"v": Tolerance(absolute=0.01)},
    )

    assert report.finding.verdict is Verdict.CONSISTENT


def test_a_connection_that_ends_is_named_and_nothing_is_left(settings: Settings, address: str) -> None:
    table = make_table(address, "v int", *["1"] * 50)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cutover'"
    staged, killed = staging.stage_batches, threading.Event()

    def stage(*arguments: Any) -> Path:
        execute(address, kill, "INSERT INTO t SELECT n, 1 FROM generate_series(1, 100000) n")
        killed.set()
        return staged(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "stage_batches", stage)
        with pytest.raises(LakeError, match="expected a server that returns its rows"):
            compare_tables(DiffRequest(expected=table, actual=table, key=("k",)), settings)

    assert killed.is_set()
    assert [*(settings.home / "tmp" / "duckdb").glob("*")] == []


SECRET = "Geheim/7731@x"  # noqa: S105 -- planted
ENCODED = "Geheim%2F7731%40x"


def test_a_password_is_in_no_output_and_no_file(
    settings: Settings, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.chdir(tmp_path)
    make_table(address, "v int", "1", "2")
    file = write(tmp_path / "t.parquet", [1, 3], pa.int32())
    good = address.replace("cutover@", f"cutover:{ENCODED}@")
    monkeypatch.setenv("SHOP_DB", good)
    monkeypatch.setenv("BROKEN_DB", f"postgresql://cutover:{SECRET}@127.0.0.1:1/shop")
    host = address.rpartition("@")[2].partition("/")[0]
    sources = {
        f"{good}#t": 1,
        "env:SHOP_DB#t": 1,
        f"{good}#missing": 2,
        f"{good.replace('/postgres', '/no_database')}#t": 2,
        f"postgresql://cutover:{ENCODED}@127.0.0.1:1/shop#t": 2,
        f"postgresql://cutover:{SECRET}@127.0.0.1:1/shop#t": 2,
        f"postgresql://cutover:{ENCODED}@{host}:no/shop#t": 2,
        f"postgresql://{host}/postgres?password={ENCODED}&user=cutover#t": 1,
        f"postgresql://{host}/postgres?passwort={ENCODED}&user=cutover#t": 2,
        f"postgresql:/cutover:{ENCODED}@{host}/postgres": 2,
        f"host=127.0.0.1 password={ENCODED}": 2,
        "env:BROKEN_DB#t": 2,
        f"nosuch://cutover:{ENCODED}@127.0.0.1/shop#t": 2,
        f"mysql://cutover:{ENCODED}@127.0.0.1/shop#t": 2,
        f"s3://key:{ENCODED}@bucket/table": 2,
    }
    shown = ""
    for number, (source, exit_code) in enumerate(sources.items()):
        for option in (["--report", f"{number}.html"], ["--report", f"{number}.json"], ["--json"]):
            assert app.main(["diff", file, source, "--key", "k", *option]) == exit_code, source
            outcome = capfd.readouterr()
            shown += outcome.out + outcome.err

    stored = [path for folder in (settings.home, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert "env:SHOP_DB#t" in shown
    assert "postgresql://cutover:***@" in shown
    for text in (SECRET, ENCODED, "7731"):
        assert text not in shown
        assert [path for path in stored if text.encode() in path.read_bytes() or text in path.name] == []
    assert json.loads((tmp_path / "0.json").read_text())["sides"]["actual"].startswith("postgresql://cutover:***@")
    assert [*(settings.home / "tmp" / "duckdb").glob("*")] == []


def test_no_server_is_an_error_with_a_hint(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", [1])

    with pytest.raises(CutoverError, match=r"expected a server that returns its rows[\s\S]*PGPASSWORD"):
        compare(file, "postgresql://cutover@127.0.0.1:1/shop#t")

"""Iceberg tables at one snapshot: never the files of all snapshots, and deletes applied or refused."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.sources.binding import BoundTable, open_binder
from cutover.sources.staging import Selection, TimeRange
from tests.support.tables.iceberg_tables import delete_keys, delete_positions, find_folder, make_catalog

DAYS = [datetime(2024, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)]
ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3], pa.int64()),
        "amount": pa.array([Decimal("1.50"), None, Decimal("-3.25")], pa.decimal128(38, 2)),
        "at": pa.array(DAYS, pa.timestamp("us", "UTC")),
        "local": pa.array([at.replace(tzinfo=None) for at in DAYS], pa.timestamp("us")),
        "day": pa.array([at.date() for at in DAYS], pa.date32()),
        "id": pa.array([bytes([n] * 16) for n in range(3)], pa.uuid()),
        "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "place": pa.array(
            [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}], pa.struct([("x", pa.int32()), ("y", pa.string())])
        ),
        "prices": pa.array([[("a", 1.5)], [], None], pa.map_(pa.string(), pa.float64())),
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return make_catalog(tmp_path)


def make_table(catalog: SqlCatalog, *parts: pa.Table, name: str = "shop.sales", **options: Any) -> Table:
    table = catalog.create_table(name, schema=parts[0].schema, **options)
    for part in parts:
        table.append(part)
    return table


def read(source: str, columns: str = "*", **selection: Any) -> tuple[BoundTable, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection, open_binder(connection, None) as binder:
        connection.execute("SET TimeZone = 'UTC'")
        bound = binder.bind("rows", source, None, Selection(**selection))
        return bound, connection.execute(f"SELECT {columns} FROM rows ORDER BY k").fetchall()  # noqa: S608 -- of a test


def compare(left: str, right: str, settings: Settings | None = None) -> Report:
    return compare_tables(DiffRequest(expected=left, actual=right, key=("k",)), settings)


@pytest.mark.quick
def test_a_folder_is_read_at_its_newest_snapshot_and_not_file_by_file(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = make_table(catalog, ROWS)
    table.overwrite(ROWS.slice(0, 2))
    pq.write_table(ROWS.slice(0, 2), tmp_path / "two.parquet")

    report = compare(find_folder(table), str(tmp_path / "two.parquet"))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)
    newest = table.current_snapshot()
    assert newest is not None
    assert any(f"read at snapshot {newest.snapshot_id} of" in note for note in report.finding.notes)


@pytest.mark.parametrize("part", ["data", "data/*.parquet", "metadata/../data"])
def test_files_of_a_table_are_no_table(catalog: SqlCatalog, part: str) -> None:
    folder = find_folder(make_table(catalog, ROWS))

    with pytest.raises(DefinitionError, match=r"those of the Iceberg table.*\n.*name its folder"):
        compare(f"{folder}/{part}", f"{folder}/{part}")
    with pytest.raises(DefinitionError, match="those of the Iceberg table"):
        compare(str(Path(folder).parents[1]), folder)


def test_a_snapshot_is_read_with_the_columns_of_its_time(catalog: SqlCatalog) -> None:
    table = make_table(catalog, ROWS)
    first = table.snapshots()[0].snapshot_id
    table.append(ROWS)
    with table.update_schema() as update:
        update.rename_column("amount", "total")
        update.add_column("note", StringType())

    old, rows = read(f"{find_folder(table)}@snapshot={first}")
    new, all_rows = read(find_folder(table))

    assert ("amount" in old.types, len(rows)) == (True, 3)
    assert ("total" in new.types, "note" in new.types, len(all_rows)) == (True, True, 6)
    assert [row[:2] for row in all_rows] == [(k, cell) for k, cell, *_ in rows for _ in range(2)]
    with pytest.raises(DefinitionError, match=rf"got 5\.\n.*{first}"):
        read(f"{find_folder(table)}@snapshot=5")


def test_widened_columns_and_dropped_ones_that_came_back_are_read_by_field_id(catalog: SqlCatalog) -> None:
    small = pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array(["old", "old"])})
    table = make_table(catalog, small)
    with table.update_schema() as update:
        update.update_column("k", LongType())
        update.delete_column("v")
    with table.update_schema() as update:
        update.add_column("v", StringType())

    bound, rows = read(find_folder(table))

    assert (bound.types["k"], rows) == ("BIGINT", [(1, None), (2, None)])


def test_deletes_by_position_are_applied(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = make_table(catalog, ROWS)
    delete_positions(table, [1])
    pq.write_table(pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(2)]), tmp_path / "rest.parquet")

    report = compare(find_folder(table), str(tmp_path / "rest.parquet"))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 2)
    times = TimeRange(column="at", start=int(DAYS[1].timestamp() * 1e6))
    assert read(find_folder(table), "k", times=times)[1] == [(3,)]


def test_deletes_by_key_are_refused_by_name(catalog: SqlCatalog) -> None:
    table = make_table(catalog, ROWS)
    delete_keys(table, [2])

    with pytest.raises(LakeError, match="got some by equality, which pyiceberg does not apply"):
        read(find_folder(table))


@pytest.mark.parametrize("is_copied", [False, True])
def test_every_type_equals_that_of_parquet(catalog: SqlCatalog, tmp_path: Path, *, is_copied: bool) -> None:
    table = make_table(catalog, ROWS)
    if is_copied:
        with table.update_schema() as update:
            update.add_column("note", StringType())
        with table.update_schema() as update:
            update.delete_column("note")
        table.append(pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(0, 1)]))
        delete_positions(table, [0])
    rows = pa.concat_tables([ROWS, ROWS.slice(0, 1)]) if is_copied else ROWS
    pq.write_table(rows, tmp_path / "rows.parquet")

    bound, _ = read(find_folder(table))
    report = compare(find_folder(table), str(tmp_path / "rows.parquet"))

    assert (bound.file_column is None) is is_copied
    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, len(rows)), (
        report.finding.notes
    )


@pytest.mark.parametrize("column", ["at", "local", "day"])
@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_range_of_times_is_selected(catalog: SqlCatalog, column: str, *, is_renamed: bool) -> None:
    table = make_table(catalog, ROWS, ROWS)
    if is_renamed:
        with table.update_schema() as update:
            update.rename_column(column, "when")
    day = 86_400_000_000
    start = int(datetime(2024, 1, 2, tzinfo=UTC).timestamp() * 1e6)

    times = TimeRange(column="when" if is_renamed else column, start=start, end=start + day)
    _, rows = read(find_folder(table), "k", times=times)

    assert rows == [(2,), (2,)]
    with pytest.raises(DefinitionError, match="`k`: expected a date or a timestamp"):
        read(find_folder(table), "k", times=TimeRange(column="k", start=start))


def test_columns_that_are_left_out_are_not_read(catalog: SqlCatalog) -> None:
    table = make_table(catalog, ROWS)
    delete_positions(table, [0])

    bound, rows = read(find_folder(table), "k, amount", excluded=frozenset({"amount", "id", "prices"}))

    assert ({*ROWS.schema.names} == {*bound.types}, rows) == (True, [(2, None), (3, None)])


@pytest.mark.parametrize("is_copied", [False, True])
def test_columns_that_differ_in_case_alone_are_rejected(catalog: SqlCatalog, *, is_copied: bool) -> None:
    table = make_table(catalog, pa.table({"k": [1, 2], "v": [1, 1], "V": [2, 2]}))
    if is_copied:
        delete_positions(table, [0])

    with pytest.raises(DefinitionError, match="differ in more than case, got `v` and `V`"):
        read(find_folder(table))


def test_a_partitioned_table_is_read(catalog: SqlCatalog, tmp_path: Path) -> None:
    schema = catalog.create_table("shop.plain", schema=ROWS.schema).schema()
    day = PartitionField(schema.find_field("day").field_id, 1000, IdentityTransform(), "day")
    key = PartitionField(schema.find_field("k").field_id, 1001, IdentityTransform(), "k")
    table = catalog.create_table("shop.parts", schema=schema, partition_spec=PartitionSpec(day, key))
    table.append(ROWS)
    pq.write_table(ROWS, tmp_path / "rows.parquet")

    report = compare(find_folder(table), str(tmp_path / "rows.parquet"))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, 3), report.finding.notes


@pytest.mark.quick
def test_partitions_of_unusual_values_are_read(catalog: SqlCatalog, tmp_path: Path) -> None:
    names = ["a b", "x:y", "50%", "a/b", None, "é", "%20", "a?b#c"]
    rows = pa.table({"k": list(range(len(names))), "name": names})
    schema = catalog.create_table("shop.plain", schema=rows.schema).schema()
    name = PartitionField(schema.find_field("name").field_id, 1000, IdentityTransform(), "name")
    table = catalog.create_table("shop.parts", schema=schema, partition_spec=PartitionSpec(name))
    table.append(rows)
    pq.write_table(rows, tmp_path / "rows.parquet")

    report = compare(find_folder(table), str(tmp_path / "rows.parquet"))

    assert (report.finding.verdict, report.finding.rows.compared) == (Verdict.CONSISTENT, len(names))


def test_properties_of_a_snapshot_are_read(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.sales", schema=ROWS.schema)
    table.append(ROWS, snapshot_properties={"cutover.position": '{"at": 1}'})

    assert read(find_folder(table))[0].properties["cutover.position"] == '{"at": 1}'
    delete_positions(table, [0])
    assert "cutover.position" not in read(find_folder(table))[0].properties


def test_a_table_without_a_snapshot_has_no_rows(catalog: SqlCatalog) -> None:
    bound, rows = read(find_folder(catalog.create_table("shop.sales", schema=ROWS.schema)))

    assert (rows, [*bound.types]) == ([], ROWS.schema.names)


def test_a_catalog_gives_its_current_snapshot(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog, ROWS)
    first = table.snapshots()[0].snapshot_id
    table.append(ROWS)
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TYPE", "sql")

    bound, rows = read("iceberg://default/shop.sales")

    assert (len(rows), bound.pinned.startswith("at snapshot"), "metadata" in bound.pinned) == (6, True, False)
    assert len(read(f"iceberg://default/shop.sales@snapshot={first}")[1]) == 3
    with pytest.raises(LakeError, match=r"`iceberg://default/shop.nothing`.*Table does not exist"):
        read("iceberg://default/shop.nothing")
    with pytest.raises(DefinitionError, match=r"the catalog `other`, which is not configured"):
        read("iceberg://other/shop.sales")


def test_a_catalog_that_is_down_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__REMOTE__URI", "postgresql+psycopg://me:geheim-77@127.0.0.1:1/catalog")
    monkeypatch.setenv("PYICEBERG_CATALOG__REMOTE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__REMOTE__S3__SECRET_ACCESS_KEY", "geheim-78")

    with pytest.raises(CutoverError, match=r"`iceberg://remote/shop\.sales`") as raised:
        read("iceberg://remote/shop.sales")

    assert "geheim" not in str(raised.value)


def test_two_newest_metadata_files_are_no_answer(catalog: SqlCatalog) -> None:
    table = make_table(catalog, ROWS)
    newest = Path(table.metadata_location.removeprefix("file://"))
    (newest.parent / f"{newest.name.partition('-')[0]}-of-a-lost-commit.metadata.json").write_bytes(newest.read_bytes())

    with pytest.raises(DefinitionError, match=r"expected one newest metadata file, got `.*` and `.*`[\s\S]*iceberg://"):
        read(find_folder(table))
    assert len(read(str(newest))[1]) == 3


def test_a_missing_or_replaced_file_is_named(catalog: SqlCatalog) -> None:
    table = make_table(catalog, ROWS)
    file = next((Path(find_folder(table)) / "data").rglob("*.parquet"))
    pq.write_table(ROWS.slice(0, 1), file)

    with pytest.raises(LakeError, match=rf"expected file `{file}` of .* bytes"):
        read(find_folder(table))
    file.unlink()
    with pytest.raises(LakeError, match=rf"`{file}`.*found none"):
        read(find_folder(table))


def test_digests_of_files_are_kept(catalog: SqlCatalog, settings: Settings) -> None:
    table = make_table(catalog, ROWS)
    folder = find_folder(table)
    compare(folder, folder, settings)
    table.append(ROWS.set_column(0, "k", pa.array([4, 5, 6], pa.int64())))

    notes = compare(folder, folder, settings).finding.notes

    assert any("Digests of 2 files are known" in note for note in notes)

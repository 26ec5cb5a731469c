"""Tables read without a JVM: every listed file is read, or an error names the missing one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"kind": pa.string(), "n": pa.int64(), "at": pa.timestamp("us", "UTC")})
ODD_NAMES = ("plain", "with blank", "ümlaut", "a#b", "it's", "a?b", "100%", "a%b", "a*b", "a{b}", "漢字", "a:b")


def write_table(uri: str, *rows: tuple[str | None, int], partition_by: tuple[str, ...] = ()) -> DeltaTable:
    table = delta.ensure(uri, SCHEMA, partition_by=partition_by)
    for kind, n in rows:
        row = pa.Table.from_pylist([{"kind": kind, "n": n, "at": None}], schema=SCHEMA)
        write_deltalake(table, row, mode="append", partition_by=list(partition_by))
    return table


def read(uri: str, version: int | None = None) -> list[tuple[str | None, int]]:
    with queries.open_duckdb() as connection:
        delta.relation(connection, "t", uri, version=version)
        return [(row[0], row[1]) for row in connection.execute("SELECT kind, n FROM t ORDER BY n").fetchall()]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("partition_by", [(), ("kind",)])
def test_rows_come_back_from_any_folder(tmp_path: Path, name: str, partition_by: tuple[str, ...]) -> None:
    uri = str(tmp_path / name / "t")
    write_table(uri, ("a b", 1), ("it's", 2), (None, 3), ("x/y%41", 4), partition_by=partition_by)

    assert read(uri) == [("a b", 1), ("it's", 2), (None, 3), ("x/y%41", 4)]


@pytest.mark.parametrize("name", ["a%20b", "%C3%BC", "a[1]", "a\\b"])
def test_folder_name_that_would_be_decoded_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="expected a folder without brackets"):
        write_table(str(tmp_path / name / "t"), ("a", 1))

    assert [*tmp_path.iterdir()] == []


def test_an_older_version_is_read_as_it_was(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1), ("b", 2))

    assert read(uri, version=1) == [("a", 1)]


def test_an_entry_of_the_log_that_is_no_utf8_is_named_in_one_line(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1))
    entry = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    entry.write_bytes(entry.read_bytes().replace(b'"operation"', b'"operatio\xee"'))

    with pytest.raises(LakeError, match=r"got `_delta_log/0{19}1.json`, which cannot be read as JSON in UTF-8\.\n"):
        delta.open_table(uri)


@pytest.mark.parametrize("partition_by", [(), ("kind",)])
def test_an_empty_table_keeps_its_columns_and_types(tmp_path: Path, partition_by: tuple[str, ...]) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, partition_by=partition_by)
    connection = queries.open_duckdb()
    delta.relation(connection, "t", uri)

    assert [row[:2] for row in connection.execute("DESCRIBE t").fetchall()] == [
        ("kind", "VARCHAR"),
        ("n", "BIGINT"),
        ("at", "TIMESTAMP WITH TIME ZONE"),
    ]
    assert read(uri) == []


def test_a_missing_listed_file_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1))
    missing_file = next((tmp_path / "t").glob("*.parquet"))
    missing_file.unlink()

    with pytest.raises(LakeError, match=missing_file.name) as caught:
        read(uri)
    assert caught.value.runbook == "TableUnreadable"


def test_a_missing_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="expected a Delta table, found none"):
        delta.open_table(str(tmp_path / "nothing"))


def test_a_folder_in_place_of_the_only_log_entry_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri)
    entry = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    entry.unlink()
    is_found_without_entry = delta.exists(uri)
    entry.mkdir()

    for read_table in (delta.exists, delta.open_table):
        with pytest.raises(LakeError, match=rf"{entry.name}.*is no file") as caught:
            read_table(uri)
        assert caught.value.runbook == "TableUnreadable"
    assert not is_found_without_entry


def test_a_missing_version_is_reported(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1))

    with pytest.raises(LakeError, match="at version 99"):
        delta.open_table(uri, 99)


def test_a_truncated_log_entry_is_reported(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1))
    newest = max((tmp_path / "t" / "_delta_log").glob("*.json"))
    newest.write_text(newest.read_text(encoding="utf-8")[:40], encoding="utf-8")

    with pytest.raises(LakeError, match="which cannot be read as JSON") as caught:
        read(uri)
    assert caught.value.runbook == "TableUnreadable"


@pytest.mark.parametrize("name", ["n", "positions", "offset"])
def test_a_changed_name_in_the_schema_of_the_log_is_reported(tmp_path: Path, name: str) -> None:
    uri = str(tmp_path / "t")
    position = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])
    schema = make_arrow_schema({"n": pa.int64(), "positions": pa.list_(position)})
    delta.ensure(uri, schema)
    rows = [{"n": 1, "positions": [{"partition": 0, "offset": 7}]}]
    commits.append(delta.open_table(uri), pa.Table.from_pylist(rows, schema=schema))
    first = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    entry = first.read_text(encoding="utf-8")
    changed = entry.replace(f'\\"name\\":\\"{name}\\"', f'\\"name\\":\\"{name[:-1]}~\\"')
    first.write_text(changed, encoding="utf-8")

    assert changed != entry
    with pytest.raises(delta.TableLogError, match=name), queries.open_duckdb() as connection:
        delta.relation(connection, "t", uri)


def test_a_further_column_in_a_file_of_another_writer_is_no_damage(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_table(uri, ("a", 1))
    (file,) = (tmp_path / "t").glob("*.parquet")
    rows = pq.read_table(file)
    pq.write_table(rows.append_column("_row-id-col-1", pa.array([7])), file)

    assert read(uri) == [("a", 1)]


def test_an_unwritable_location_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(LakeError, match="expected a place where tables can be created"):
        write_table(str(tmp_path / "file" / "t"))


def test_concurrent_creators_of_one_table_do_not_conflict(tmp_path: Path) -> None:
    makers = 4
    barrier = threading.Barrier(makers)

    def make(number: int) -> int:
        barrier.wait(timeout=60)
        return int(delta.ensure(str(tmp_path / f"t{number}"), SCHEMA).version())

    with ThreadPoolExecutor(makers) as pool:
        for number in range(30):
            assert list(pool.map(make, [number] * makers)) == [0] * makers

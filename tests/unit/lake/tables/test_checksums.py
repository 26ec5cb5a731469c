"""Checksums in the names of data files: a flipped bit is detected before a value is used."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from cutover.engine import queries
from cutover.errors import LakeError
from cutover.lake.tables import checksums, commits, delta
from cutover.lake.tables.checksums import read_once
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"_kind": pa.string(), "n": pa.int64(), "x": pa.float64(), "text": pa.string()})
FLIPS = 40


def row(n: int, kind: str = "a") -> pa.Table:
    return pa.Table.from_pylist([{"_kind": kind, "n": n, "x": n / 2, "text": f"row {n}"}], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    checked_table = delta.ensure(str(tmp_path / "a folder" / "t"), SCHEMA, partition_by=["_kind"])
    commits.append(checked_table, pa.concat_tables([row(1), row(2, "b")]))
    return checked_table


def files(table: DeltaTable) -> list[Path]:
    return sorted(Path(table.table_uri.removeprefix("file://").replace("%20", " ")).glob("_kind=*/*.parquet"))


def flipped(content: bytes, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)  # noqa: S311 -- no secret
    for _ in range(FLIPS):
        place, bit = rng.randrange(len(content)), rng.randrange(8)
        yield content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def read(table: DeltaTable, *kinds: str) -> list[tuple[int, float, str]]:
    with queries.open_duckdb() as connection:
        delta.bind(connection, "t", table, kinds=kinds or None)
        rows: list[tuple[int, float, str]] = connection.execute("SELECT n, x, text FROM t ORDER BY n").fetchall()
        return rows


def test_each_flipped_bit_of_a_file_is_found_and_the_file_is_named(table: DeltaTable) -> None:
    for file in files(table):
        original_bytes = file.read_bytes()
        for content in flipped(original_bytes, seed=7):
            file.write_bytes(content)
            with pytest.raises(LakeError, match=file.name) as refused:
                read(table)
            assert refused.value.runbook == "TableUnreadable"
        file.write_bytes(original_bytes)

    assert read(table) == [(1, 0.5, "row 1"), (2, 1.0, "row 2")]


def test_a_file_of_a_kind_that_is_not_read_is_not_checked(table: DeltaTable) -> None:
    next(file for file in files(table) if "_kind=b" in str(file)).write_bytes(b"other")

    assert read(table, "a") == [(1, 0.5, "row 1")]


def test_a_file_is_checked_once_in_a_run_and_again_once_it_changed(table: DeltaTable) -> None:
    file = files(table)[0]
    with read_once():
        read(table)
        file.write_bytes(b"x" * file.stat().st_size)
        with pytest.raises(checksums.FileDamagedError):
            read(table)


def test_a_missing_file_is_named(table: DeltaTable) -> None:
    file = files(table)[0]
    file.unlink()

    with pytest.raises(LakeError, match="is listed and not there"):
        read(table)


def test_a_file_listed_under_another_kind_is_rejected(table: DeltaTable) -> None:
    entry = Path(table.table_uri.removeprefix("file://").replace("%20", " ")) / "_delta_log" / f"{1:020d}.json"
    entry.write_text(entry.read_text().replace('"_kind":"a"', '"_kind":"c"'))

    with pytest.raises(LakeError, match="expected it to be listed as `_kind=a`, got `_kind=c`"):
        read(DeltaTable(table.table_uri))


def test_statistics_hide_no_row_from_a_reader(table: DeltaTable) -> None:
    commits.append(table, row(3).set_column(2, "x", pa.array([float("nan")])))
    query_builder = QueryBuilder().register("t", DeltaTable(table.table_uri))

    assert (
        query_builder.execute("SELECT n FROM t WHERE x >= 0.5 AND text > 'row 0' ORDER BY n").read_all().num_rows == 3
    )
    assert query_builder.execute("SELECT n FROM t WHERE n = 2 AND x = 1.0").read_all().num_rows == 1


def test_the_weight_of_all_files_stays_when_they_are_merged(tmp_path: Path) -> None:
    plain = delta.ensure(str(tmp_path / "t"), SCHEMA)
    for n in range(5):
        commits.append(plain, row(n))
    weight_before = checksums.total(delta.paths(plain))

    assert commits.compact(str(tmp_path / "t"), files=2)
    merged_paths = delta.paths(delta.open_table(str(tmp_path / "t")))
    assert (len(merged_paths), checksums.total(merged_paths)) == (1, weight_before)


def test_foreign_files_are_not_merged(tmp_path: Path) -> None:
    plain = delta.ensure(str(tmp_path / "t"), SCHEMA)
    for n in range(5):
        commits.append(plain, row(n))
    DeltaTable(str(tmp_path / "t")).optimize.compact()

    assert not commits.compact(str(tmp_path / "t"), files=0)

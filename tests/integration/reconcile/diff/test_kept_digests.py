"""Digests that are kept: a second comparison reads what changed, and believes nothing that does not fit the bytes."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from cutover.errors import LakeError
from cutover.lake.tables import checksums
from cutover.reconcile.external import open_tables
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.side_digests import count_doubled
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from cutover.timestamps import to_micros

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
HOURS = 6


def rows_of(hour: int, **values: Any) -> list[dict[str, Any]]:
    return [
        {"hour": NOON + timedelta(hours=hour), "shop": f"s{n}", "amount": n * hour, "ratio": n / 7} | values
        for n in range(300)
    ]


def write(folder: Path, hour: int, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{hour}.parquet", compression="none")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for hour in range(HOURS):
        write(tmp_path / "left", hour, rows_of(hour))
        write(tmp_path / "right", hour, list(reversed(rows_of(hour))))
    return tmp_path


def compare_sides(tables: Path, **options: Any) -> Report:
    request = {"key": ("hour", "shop"), "window": "hour", **options}
    settings = Settings(home=tables / "home")
    return compare_tables(DiffRequest(expected=str(tables / "left"), actual=str(tables / "right"), **request), settings)


def read(result: Report) -> str:
    return next((note for note in result.finding.notes if note.startswith("Digests of")), "")


def kept_file(tables: Path) -> Path:
    return next((tables / "home" / "digests").glob("digests-*.parquet"))


def test_a_second_comparison_reads_no_file(tables: Path) -> None:
    first_report, second = compare_sides(tables), compare_sides(tables)

    assert (read(first_report), read(second)) == ("", "Digests of 12 files are known from an earlier run; 0 were read.")
    assert (second.finding.verdict, second.finding.rows, second.finding.windows) == (
        Verdict.CONSISTENT,
        first_report.finding.rows,
        first_report.finding.windows,
    )


def test_only_a_changed_file_is_read_again(tables: Path) -> None:
    compare_sides(tables)
    write(tables / "right", 2, rows_of(2, amount=-1))

    result = compare_sides(tables)

    assert read(result) == "Digests of 11 files are known from an earlier run; 1 were read."
    assert (result.finding.verdict, result.finding.rows.changed, result.finding.windows.different) == (
        Verdict.DIVERGED,
        300,
        1,
    )


def test_a_file_that_changed_behind_its_size_and_time_is_read(tables: Path) -> None:
    compare_sides(tables)
    file = tables / "right" / "2.parquet"
    stat_before = file.stat()
    wrong = bytearray(file.read_bytes())
    place = wrong.index(b"s217")
    wrong[place : place + 4] = b"s999"
    file.write_bytes(wrong)
    os.utime(file, ns=(stat_before.st_atime_ns, stat_before.st_mtime_ns))

    result = compare_sides(tables)

    assert (file.stat().st_mtime_ns, file.stat().st_size) == (stat_before.st_mtime_ns, stat_before.st_size)
    assert (result.finding.verdict, result.finding.rows.missing, result.finding.rows.extra) == (Verdict.DIVERGED, 1, 1)


def test_an_edited_digest_is_named_and_not_believed(tables: Path) -> None:
    write(tables / "right", 2, rows_of(2, amount=-1))
    compare_sides(tables)
    file = kept_file(tables)
    rows = pq.read_table(file).to_pylist()
    right = {(r["_content"], r["_group"], r["_bucket"]): r for r in rows if r["_side"] == 1}
    forged = [
        r | ({k: right[p][k] for k in ("n", "x", "s_high", "s_low")} if (p := _twin(r, right)) else {}) for r in rows
    ]
    pq.write_table(pa.Table.from_pylist(forged, schema=pq.read_schema(file)), file)

    result = compare_sides(tables)

    assert (result.finding.verdict, result.finding.rows.changed) == (Verdict.DIVERGED, 300)
    assert any("are not what was written" in note for note in result.finding.notes)
    assert not any("are not what was written" in note for note in compare_sides(tables).finding.notes)


def _twin(row: dict[str, Any], right: dict[Any, Any]) -> Any:
    return next((p for p in right if row["_side"] == 0 and p[1:] == (row["_group"], row["_bucket"])), None)


@pytest.mark.quick
def test_a_file_of_digests_cut_short_is_no_failure(tables: Path) -> None:
    compare_sides(tables)
    file = kept_file(tables)
    file.write_bytes(file.read_bytes()[:100])

    assert compare_sides(tables).finding.verdict is Verdict.CONSISTENT


def test_other_rules_know_nothing_of_one_another(tables: Path) -> None:
    compare_sides(tables)
    write(tables / "right", 2, rows_of(2, amount=-1))

    assert (compare_sides(tables, excluded=("amount",)).finding.verdict, compare_sides(tables).finding.verdict) == (
        Verdict.CONSISTENT,
        Verdict.DIVERGED,
    )


def test_a_tolerance_is_no_part_of_a_digest(tables: Path) -> None:
    write(tables / "right", 2, rows_of(2, amount=-1))
    compare_sides(tables)

    result = compare_sides(tables, tolerances={"amount": Tolerance(absolute=10_000.0)})

    assert (result.finding.verdict, read(result)) == (
        Verdict.CONSISTENT,
        "Digests of 12 files are known from an earlier run; 0 were read.",
    )


def test_windows_that_were_too_young_are_compared_when_they_are_older(tables: Path) -> None:
    write(tables / "right", 5, rows_of(5, amount=-1))

    young = compare_sides(tables, cutoff=to_micros(NOON + timedelta(hours=5)))
    older = compare_sides(tables, cutoff=to_micros(NOON + timedelta(hours=6)))

    assert (young.finding.verdict, young.finding.rows.compared, young.finding.windows.compared) == (
        Verdict.CONSISTENT,
        1500,
        5,
    )
    assert (older.finding.verdict, older.finding.rows.changed, read(older)) == (
        Verdict.DIVERGED,
        300,
        "Digests of 12 files are known from an earlier run; 0 were read.",
    )


def test_doubled_keys_are_told_again_from_what_is_kept(tables: Path) -> None:
    for side in ("left", "right"):
        write(tables / side, 7, [*rows_of(0), *rows_of(1)[:40]])

    first_report, second = compare_sides(tables), compare_sides(tables)

    messages = [note for note in first_report.finding.notes if "not unique" in note]
    assert messages == [
        f"The key is not unique on the {side} side: 340 keys have more than one row." for side in ("expected", "actual")
    ]
    assert [note for note in second.finding.notes if "not unique" in note] == messages


def test_a_key_doubled_by_a_new_file_is_told(tables: Path) -> None:
    compare_sides(tables)
    for side in ("left", "right"):
        write(tables / side, 7, rows_of(3)[:10])

    notes = [note for note in compare_sides(tables).finding.notes if "not unique" in note]

    assert len(notes) == 2
    assert "10 keys" in notes[0]


def test_many_small_changes_end_in_few_files(tables: Path) -> None:
    for turn in range(30):
        for side in ("left", "right"):
            write(tables / side, 2, rows_of(2, amount=turn))

        result = compare_sides(tables)

        assert (result.finding.verdict, result.finding.rows.compared) == (Verdict.CONSISTENT, 1800)
        assert read(result) == ("Digests of 10 files are known from an earlier run; 2 were read." if turn else "")

    assert 1 <= len([*(tables / "home" / "digests").iterdir()]) <= 13


def test_two_runs_that_kept_the_same_are_not_added_up(tables: Path) -> None:
    compare_sides(tables)
    file = kept_file(tables)
    place = tables / "aside"
    shutil.move(file, place)
    compare_sides(tables)
    shutil.move(place, file)

    assert len([*(tables / "home" / "digests").iterdir()]) == 2
    assert (compare_sides(tables).finding.rows.compared, compare_sides(tables).finding.verdict) == (
        1800,
        Verdict.CONSISTENT,
    )


@pytest.mark.quick
def test_groups_over_several_files_are_not_counted_again(tables: Path) -> None:
    for side in ("left", "right"):
        write(tables / side, 7, rows_of(0)[:20])
    compare_sides(tables)
    write(tables / "right", 5, list(reversed(rows_of(5, amount=1))))
    compare_sides(tables)

    notes = [note for note in compare_sides(tables).finding.notes if "not unique" in note]

    assert [note.split(": ")[1] for note in notes] == ["20 keys have more than one row."] * 2


def test_a_file_that_is_gone_takes_its_rows_along(tables: Path) -> None:
    compare_sides(tables)
    (tables / "right" / "4.parquet").unlink()

    assert (compare_sides(tables).finding.rows.missing, compare_sides(tables).finding.windows.different) == (300, 1)


def test_a_copy_of_a_file_counts_twice(tables: Path) -> None:
    compare_sides(tables)
    shutil.copy(tables / "right" / "4.parquet", tables / "right" / "9.parquet")

    assert compare_sides(tables).finding.rows.extra == 300


def test_delta_without_a_window_keeps_too(tmp_path: Path) -> None:
    rows = [row for hour in range(HOURS) for row in rows_of(hour)]
    for side in ("left", "right"):
        write_deltalake(str(tmp_path / side), pa.Table.from_pylist(rows))
    compare_sides(tmp_path, window=None)
    write_deltalake(str(tmp_path / "right"), pa.Table.from_pylist(rows_of(9)), mode="append")

    result = compare_sides(tmp_path, window=None)

    assert (result.finding.rows.extra, read(result)) == (
        300,
        "Digests of 2 files are known from an earlier run; 1 were read.",
    )


def test_a_file_of_ours_with_a_flipped_bit_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of(1)), plain)
    name = checksums.file_name("run-0123456789abcdef", checksums.hash_bytes(plain.read_bytes()))
    for side in ("left", "right"):
        write_deltalake(str(tmp_path / side), pa.Table.from_pylist(rows_of(1)))
        (log,) = (tmp_path / side / "_delta_log").glob("*0.json")
        (old,) = (tmp_path / side).glob("*.parquet")
        log.write_text(log.read_text().replace(old.name, name))
        old.unlink()
        shutil.copy(plain, tmp_path / side / name)
    assert compare_sides(tmp_path).finding.verdict is Verdict.CONSISTENT
    file = tmp_path / "right" / name
    wrong = bytearray(file.read_bytes())
    wrong[200] ^= 1
    file.write_bytes(wrong)

    with pytest.raises(LakeError, match=name[:20]):
        compare_sides(tmp_path)


def test_a_folder_that_cannot_be_written_keeps_nothing(tables: Path) -> None:
    (tables / "home").mkdir()
    (tables / "home" / "digests").write_text("a file in its place")

    assert (compare_sides(tables).finding.verdict, read(compare_sides(tables))) == (Verdict.CONSISTENT, "")


def test_a_column_that_may_be_null_on_one_side_only_is_a_note(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2], "v": [3, 4]})
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    (tmp_path / "left").mkdir()
    pq.write_table(table.cast(strict), tmp_path / "left" / "1.parquet")
    write_deltalake(str(tmp_path / "right"), table)

    result = compare_sides(tmp_path, key=("k",), window=None)

    assert result.finding.notes == ("Column `k` may hold nulls on the actual side, and none on the expected side.",)
    assert result.finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize("change", ["rewritten", "removed"])
def test_a_side_that_changes_while_it_is_compared_is_no_verdict(
    tables: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file = tables / "left" / "3.parquet"

    def change_first(connection: duckdb.DuckDBPyConnection, *arguments: Any, **options: Any) -> tuple[int, int]:
        if change == "removed":
            file.unlink()
        else:
            write(tables / "left", 3, rows_of(3, amount=0))
        return count_doubled(connection, *arguments, **options)

    monkeypatch.setattr(open_tables, "count_doubled", change_first)

    with pytest.raises(LakeError, match=r"3\.parquet"):
        compare_sides(tables)
    assert list((tables / "home").rglob("*.parquet")) == []  # and nothing of it is kept

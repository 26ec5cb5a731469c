"""`cutover diff` over tables that Cutover did not make: Delta and Parquet, odd keys, other schemas, other types."""

import math
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.errors import DefinitionError, LakeError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.report import page
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from tests.integration.reconcile.test_run import SCHEMA

ROWS: tuple[dict[str, Any], ...] = (
    {"day": 1, "shop": "a", "amount": 10, "ratio": 0.5},
    {"day": 1, "shop": None, "amount": 20, "ratio": math.nan},
    {"day": 2, "shop": "a", "amount": 30, "ratio": None},
    {"day": 2, "shop": "b", "amount": 40, "ratio": 1.5},
)


def parquet(path: Path, rows: tuple[dict[str, Any], ...] | list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def compare_with_rows(tmp_path: Path, actual: list[dict[str, Any]], **options: Any) -> Report:
    left, right = parquet(tmp_path / "left.parquet", ROWS), parquet(tmp_path / "right.parquet", actual)
    return compare_tables(DiffRequest(expected=left, actual=right, **{"key": ("day", "shop"), **options}))


def change_row(place: int, **values: Any) -> list[dict[str, Any]]:
    return [row | values if i == place else row for i, row in enumerate(ROWS)]


def kinds(result: Report) -> list[tuple[Any, str, str]]:
    return [(cell.key["shop"], cell.measure, cell.kind) for cell in result.finding.differences]


def test_equal_tables_in_another_order_agree(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, list(reversed(ROWS)))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.rows.compared) == (
        Verdict.CONSISTENT,
        0,
        4,
    )


def test_a_changed_value_is_found(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, change_row(0, amount=11))

    cell = result.finding.differences[0]
    assert (result.finding.exit_code, cell.batch, cell.streaming, cell.difference) == (1, 10, 11, 1)


def test_a_row_of_a_null_key_that_is_missing_is_found(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, [row for row in ROWS if row["shop"] is not None])

    assert (result.finding.rows.missing, {shop for shop, _, _ in kinds(result)}) == (1, {None})


def test_swapped_values_of_two_rows_are_found(tmp_path: Path) -> None:
    actual = [row | {"amount": {30: 40, 40: 30}.get(row["amount"], row["amount"])} for row in ROWS]

    assert compare_with_rows(tmp_path, actual, window="day").finding.rows.changed == 2


def test_a_null_is_not_nan(tmp_path: Path) -> None:
    assert kinds(compare_with_rows(tmp_path, change_row(2, ratio=math.nan))) == [("a", "ratio", "changed")]


def test_a_float_within_the_relative_tolerance_is_equal(tmp_path: Path) -> None:
    assert compare_with_rows(tmp_path, change_row(3, ratio=1.5 * (1 + 1e-12))).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize(("amount", "verdict"), [(42, Verdict.CONSISTENT), (43, Verdict.DIVERGED)])
def test_an_asked_tolerance_is_absolute(tmp_path: Path, amount: int, verdict: Verdict) -> None:
    assert (
        compare_with_rows(
            tmp_path, change_row(3, amount=amount), tolerances={"amount": Tolerance(absolute=2.0)}
        ).finding.verdict
        is verdict
    )


def test_repeated_keys_are_compared_as_a_multiset(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, [*ROWS, ROWS[0]])

    assert (result.finding.rows.extra, result.finding.rows.compared, len(result.finding.notes)) == (1, 5, 1)


def test_keys_repeated_alike_on_both_sides_agree_with_a_note(tmp_path: Path) -> None:
    doubled = (*ROWS, ROWS[0])
    left, right = parquet(tmp_path / "l.parquet", doubled), parquet(tmp_path / "r.parquet", doubled)

    result = compare_tables(DiffRequest(expected=left, actual=right, key=("day", "shop")))

    assert (result.finding.verdict, len(result.finding.notes)) == (Verdict.CONSISTENT, 2)


def test_a_column_on_one_side_only_is_a_difference(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, [row | {"more": 1} for row in ROWS])

    assert (result.finding.verdict, result.finding.notes) == (
        Verdict.DIVERGED,
        ("Column `more` is on the actual side only.",),
    )


def test_another_type_of_number_is_a_note(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, [row | {"amount": float(row["amount"])} for row in ROWS])

    assert (result.finding.verdict, len(result.finding.notes)) == (Verdict.CONSISTENT, 1)


def test_text_in_place_of_a_number_is_a_difference(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, [row | {"amount": str(row["amount"])} for row in ROWS])

    assert (result.finding.verdict, result.finding.rows.changed) == (Verdict.DIVERGED, 0)


def test_windows_are_counted_by_their_column(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, change_row(3, amount=0), window="day")

    assert (
        result.finding.windows.compared,
        result.finding.windows.different,
        result.finding.differences[0].window_start,
    ) == (
        2,
        1,
        "2",
    )


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a Delta folder, by a relative path, whose version 1 lacks a row."""
    monkeypatch.chdir(tmp_path)
    write_deltalake("delta", pa.Table.from_pylist(list(ROWS)))
    write_deltalake("delta", pa.Table.from_pylist(list(ROWS[:3])), mode="overwrite")
    return "delta"


def test_two_versions_of_one_table_compare(versions: str) -> None:
    tables = compare_tables(DiffRequest(expected=f"{versions}@v0", actual=f"{versions}@v1", key=("day", "shop")))
    now = compare_tables(DiffRequest(expected=f"{versions}@v1", actual=versions, key=("day", "shop")))

    assert (kinds(tables)[0], now.finding.verdict) == (("b", "amount", "missing"), Verdict.CONSISTENT)


@pytest.mark.quick
def test_a_version_that_is_not_there_or_was_vacuumed_is_said(versions: str) -> None:
    with pytest.raises(DefinitionError, match="expected a version up to 1, got 99999999999"):
        compare_tables(DiffRequest(expected=f"{versions}@v99999999999", actual=versions, key=("day", "shop")))
    DeltaTable(versions).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(LakeError, match=r"version 0: file .* is listed and not there"):
        compare_tables(DiffRequest(expected=f"{versions}@v0", actual=versions, key=("day", "shop")))


@pytest.mark.quick
def test_damaged_log_of_a_table_named_from_here_is_said(versions: str) -> None:
    Path(versions, "_delta_log", f"{1:020}.json").write_text("")

    with pytest.raises(LakeError, match="has 0 bytes"):
        compare_tables(DiffRequest(expected=versions, actual=versions, key=("day", "shop")))


def test_delta_and_a_folder_of_parquet_compare(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "delta"), pa.Table.from_pylist(list(ROWS)), partition_by=["day"])
    parquet(tmp_path / "files" / "1.parquet", ROWS[:2])
    parquet(tmp_path / "files" / "deeper" / "2.parquet", ROWS[2:])

    result = compare_tables(
        DiffRequest(expected=str(tmp_path / "delta"), actual=str(tmp_path / "files"), key=("day", "shop"))
    )

    assert (result.finding.verdict, result.finding.rows.compared) == (Verdict.CONSISTENT, 4)


def test_a_glob_is_a_table(tmp_path: Path) -> None:
    parquet(tmp_path / "a-1.parquet", ROWS[:2])
    parquet(tmp_path / "a-2.parquet", ROWS[2:])
    whole_file = parquet(tmp_path / "whole.parquet", ROWS)

    result = compare_tables(DiffRequest(expected=str(tmp_path / "a-*.parquet"), actual=whole_file, key=("day", "shop")))

    assert result.finding.verdict is Verdict.CONSISTENT


def test_nothing_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="found nothing"):
        compare_tables(DiffRequest(expected=str(tmp_path / "nowhere"), actual=str(tmp_path), key=("day",)))


def test_an_unknown_key_column_is_refused_with_the_shared_ones(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="day, shop, amount, ratio"):
        compare_with_rows(tmp_path, list(ROWS), key=("nope",))


@pytest.mark.parametrize(
    ("name", "message"),
    [("left.parquet", "expected Parquet, got in `left.parquet`"), ("left.csv", "line 3: Invalid unicode")],
)
def test_a_file_that_is_not_of_its_kind_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"a,b\n1,2\n\xff\xfe,4\n")

    with pytest.raises(LakeError, match=message):
        compare_tables(DiffRequest(expected=str(tmp_path / name), actual=str(tmp_path / name), key=("a",)))


def test_the_object_fits_the_schema_and_the_page_renders(tmp_path: Path) -> None:
    result = compare_with_rows(tmp_path, change_row(0, amount=11), window="day")

    jsonschema.validate(result.to_json(), SCHEMA)
    assert "amount" in page.render_page(result)


def test_a_column_that_was_added_later_is_null_before(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "left"), pa.Table.from_pylist(list(ROWS[:2])).drop_columns(["ratio"]))
    write_deltalake(str(tmp_path / "left"), pa.Table.from_pylist(list(ROWS[2:])), mode="append", schema_mode="merge")
    actual = [row | ({"ratio": None} if row["day"] == 1 else {}) for row in ROWS]
    right = parquet(tmp_path / "right.parquet", actual)

    result = compare_tables(DiffRequest(expected=str(tmp_path / "left"), actual=right, key=("day", "shop")))

    assert (result.finding.verdict, result.finding.rows.compared) == (Verdict.CONSISTENT, 4)

"""Rules of `cutover diff`: tolerances, names, excluded, masked and too young rows, budgets, segments."""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cutover.errors import DefinitionError
from cutover.reconcile.comparison.diff import Budget
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import CELLS_AT_MOST, MASKED, compare_tables
from cutover.reconcile.report import page
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.timestamps import to_micros
from tests.integration.reconcile.test_run import SCHEMA

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "hour": NOON + timedelta(hours=n % 24),
        "shop": f"s{n % 10}",
        "n": n,
        "amount": 100.0 + n,
        "at": NOON + timedelta(minutes=n),
        "city": "Z\N{LATIN SMALL LETTER U WITH DIAERESIS}rich",
    }
    for n in range(480)
]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def compare_with_rows(tmp_path: Path, actual: list[dict[str, Any]], **options: Any) -> Report:
    left, right = write(tmp_path / "left.parquet", ROWS), write(tmp_path / "right.parquet", actual)
    result = compare_tables(DiffRequest(expected=left, actual=right, **{"key": ("hour", "shop", "n"), **options}))
    jsonschema.validate(json.loads(json.dumps(result.to_json())), SCHEMA)
    return result


def edit_rows(change: Any, rows: list[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    return [row | change(row) for row in rows]


@pytest.mark.parametrize(
    ("tolerance", "verdict"),
    [
        (Tolerance(relative=0.02), Verdict.CONSISTENT),
        (Tolerance(relative=0.005), Verdict.DIVERGED),
        (Tolerance(absolute=6.0), Verdict.CONSISTENT),
        (Tolerance(absolute=1.0, relative=0.02), Verdict.CONSISTENT),
        (Tolerance(absolute=1.0), Verdict.DIVERGED),
    ],
)
def test_a_number_is_equal_within_any_of_its_bounds(tmp_path: Path, tolerance: Tolerance, verdict: Verdict) -> None:
    actual = edit_rows(lambda row: {"amount": row["amount"] * 1.01})

    assert compare_with_rows(tmp_path, actual, tolerances={"amount": tolerance}).finding.verdict is verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(5, Verdict.CONSISTENT), (4, Verdict.DIVERGED)])
def test_a_time_is_equal_within_a_length_of_time(tmp_path: Path, seconds: int, verdict: Verdict) -> None:
    actual = edit_rows(lambda row: {"at": row["at"] + timedelta(seconds=5)})

    assert (
        compare_with_rows(tmp_path, actual, tolerances={"at": Tolerance(micros=seconds * 1_000_000)}).finding.verdict
        is verdict
    )


def test_a_null_is_within_no_tolerance(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"at": None} if row["n"] == 3 else {})

    assert compare_with_rows(tmp_path, actual, tolerances={"at": Tolerance(micros=10**12)}).finding.rows.changed == 1


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerances": {"shop": Tolerance(absolute=1.0)}}, "expected a column that is compared, got one of the key"),
        ({"tolerances": {"amount": Tolerance(micros=1)}}, "expected a date or a timestamp, alone, got DOUBLE"),
        ({"tolerances": {"city": Tolerance(relative=0.1)}}, "expected a number, got VARCHAR"),
        ({"tolerances": {"none": Tolerance(relative=0.1)}}, "Column `none`: expected a column of both tables"),
        ({"key": ("HOUR",)}, "Hint: the column is called hour."),
        ({"key": ("n", "n")}, "`--key`: column `n`: expected each column once"),
        ({"names": {"amount": "paid"}}, "`--map`: column `paid`: expected one of hour"),
        ({"names": {"paid": "amount"}}, "`--map`: column `paid`: expected one of hour"),
        ({"names": {"amount": "n"}}, "expected names that the actual side does not have, got `amount`"),
        ({"excluded": ("none",)}, "`--exclude`: column `none`: expected one of"),
        ({"masked": ("none",)}, "`--mask`: column `none`: expected one of"),
        ({"normalized": ("n",)}, "`--normalize`: column `n`: expected a text, got BIGINT"),
        ({"caseless": ("none",)}, "`--ignore-case`: column `none`: expected one of"),
        ({"cutoff": 1}, "`--window-column`: expected a date or a timestamp on both sides, got none"),
        (
            {"cutoff": 1, "window": "shop"},
            "expected a date or a timestamp on both sides, got VARCHAR",
        ),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        compare_with_rows(tmp_path, ROWS, **options)

    assert message in str(refused.value)


def test_a_column_of_another_name_is_compared(tmp_path: Path) -> None:
    actual = [{"paid" if name == "amount" else name: value for name, value in row.items()} for row in ROWS]
    actual[7]["paid"] = 0.0

    result = compare_with_rows(tmp_path, actual, names={"amount": "paid"})

    assert [(cell.measure, cell.streaming) for cell in result.finding.differences] == [("amount", 0)]


def test_a_column_of_the_key_may_have_another_name(tmp_path: Path) -> None:
    actual = [{"store" if name == "shop" else name: value for name, value in row.items()} for row in ROWS]

    assert compare_with_rows(tmp_path, actual, names={"shop": "store"}).finding.verdict is Verdict.CONSISTENT


def test_what_is_excluded_is_not_compared_and_said(tmp_path: Path) -> None:
    actual = [{k: v for k, v in row.items() if k != "city"} | {"amount": 0.0} for row in ROWS]

    result = compare_with_rows(tmp_path, actual, excluded=("city", "amount"))

    assert (result.finding.verdict, result.finding.notes) == (
        Verdict.CONSISTENT,
        ("Not compared, as asked: city, amount.",),
    )


def test_a_masked_value_is_compared_and_shown_nowhere(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"city": "Geheimstadt", "shop": row["shop"]})

    result = compare_with_rows(tmp_path, actual, masked=("city", "shop"), window="hour")

    assert result.finding.rows.changed == len(ROWS)
    assert {cell.streaming for cell in result.finding.differences} == {MASKED}
    secrets = ["Geheimstadt", str(ROWS[0]["city"]), *(f'"s{n}"' for n in range(10))]
    for text in (json.dumps(result.to_json(), ensure_ascii=False), page.render_page(result)):
        assert [secret for secret in secrets if secret in text] == []


def test_a_masked_window_is_shown_nowhere(tmp_path: Path) -> None:
    actual = edit_rows(lambda _: {"city": "elsewhere"})

    result = compare_with_rows(tmp_path, actual, masked=("hour",), window="hour")

    assert (result.finding.windows.first, result.finding.windows.last) == (MASKED, MASKED)
    for text in (json.dumps(result.to_json()), page.render_page(result)):
        assert "2024-01-01T1" not in text


def test_a_window_that_is_null_is_named_as_one(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"hour": None if row["n"] == 3 else row["hour"]})

    result = compare_with_rows(tmp_path, actual, window="hour")

    assert {cell.window_start for cell in result.finding.differences if cell.kind == "extra"} == {"null"}


@pytest.mark.quick
def test_copies_of_a_key_are_paired_by_what_must_be_equal(tmp_path: Path) -> None:
    left_rows = {"k": 1, "amount": 1.0, "name": "a"}, {"k": 1, "amount": 1.005, "name": "b"}
    other = {"k": 1, "amount": 1.004, "name": "a"}, {"k": 1, "amount": 1.001, "name": "b"}
    left, right = write(tmp_path / "left.parquet", [*left_rows]), write(tmp_path / "right.parquet", [*other])
    diff_request = DiffRequest(expected=left, actual=right, key=("k",), tolerances={"amount": Tolerance(absolute=0.01)})

    assert compare_tables(diff_request).finding.verdict is Verdict.CONSISTENT


def test_texts_in_normal_form_and_without_case_are_equal(tmp_path: Path) -> None:
    actual = edit_rows(lambda _: {"city": "\N{NO-BREAK SPACE} ZU\N{COMBINING DIAERESIS}RICH \t"})

    assert compare_with_rows(tmp_path, actual).finding.rows.changed == len(ROWS)
    assert compare_with_rows(tmp_path, actual, normalized=("city",)).finding.rows.changed == len(ROWS)
    assert (
        compare_with_rows(tmp_path, actual, normalized=("city",), caseless=("city",)).finding.verdict
        is Verdict.CONSISTENT
    )


@pytest.mark.quick
def test_young_windows_are_left_out_and_counted(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": 0.0} if row["hour"] >= NOON + timedelta(hours=20) else {})
    horizon = to_micros(NOON + timedelta(hours=20))

    result = compare_with_rows(tmp_path, actual, window="hour", cutoff=horizon)

    assert (result.finding.verdict, result.finding.windows.compared, result.finding.rows.compared) == (
        Verdict.CONSISTENT,
        20,
        400,
    )
    assert [note.split(", ")[1] for note in result.finding.notes] == [
        "from 2024-01-02T08:00:00Z on: 80 rows of the expected side.",
        "from 2024-01-02T08:00:00Z on: 80 rows of the actual side.",
    ]


def test_a_budget_of_rows_ends_it_and_is_said(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": row["amount"] + 1})

    result = compare_with_rows(tmp_path, actual, window="hour", budget=Budget(rows=1))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.rows.changed) == (Verdict.DIVERGED, 1, 320)
    assert result.finding.sentence.startswith("The tables differ in at least 320 of 480 rows")
    assert "8 of 24 groups whose digests differ were not compared" in result.finding.notes[-1]


@pytest.mark.quick
def test_what_a_budget_left_alone_is_not_called_equal(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": row["amount"] * (1 + 1e-13)})

    assert compare_with_rows(tmp_path, actual, window="hour").finding.verdict is Verdict.CONSISTENT
    ended = compare_with_rows(tmp_path, actual, window="hour", budget=Budget(seconds=0.0))
    assert (ended.finding.verdict, ended.finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    assert "not all was compared" in ended.finding.sentence


def test_a_budget_that_is_enough_changes_nothing(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": 0.0} if row["n"] in {5, 6, 300} else {})

    unbounded, bounded = (
        compare_with_rows(tmp_path, actual, window="hour", budget=budget) for budget in (Budget(), Budget(rows=10**6))
    )

    assert (bounded.finding.differences, bounded.finding.rows, bounded.finding.sentence) == (
        unbounded.finding.differences,
        unbounded.finding.rows,
        unbounded.finding.sentence,
    )


def test_how_far_apart_values_are(tmp_path: Path) -> None:
    off = {n: n if n % 4 else -n for n in range(1, 101)}
    actual = edit_rows(lambda row: {"amount": row["amount"] + off.get(row["n"], 0)})

    (deviation,) = compare_with_rows(tmp_path, actual).finding.apart

    assert (deviation.column, deviation.rows, deviation.above) == ("amount", 100, 75)
    assert (deviation.p50, deviation.p90, deviation.p99, deviation.largest) == (50, 90, 99, 100)
    assert math.isclose(deviation.mean, sum(off.values()) / 100)


@pytest.mark.quick
def test_a_value_with_more_than_its_share_is_named(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": 0.0} if row["shop"] == "s3" else {})

    result = compare_with_rows(tmp_path, actual, window="hour")

    assert [(s.column, s.value, s.different, s.rows, s.lift) for s in result.finding.segments] == [
        ("shop", "s3", 48, 48, 10.0)
    ]
    assert "s3" in page.render_page(result)


def test_an_hour_with_more_than_its_share_is_named(tmp_path: Path) -> None:
    actual = edit_rows(lambda row: {"amount": 0.0} if row["hour"].hour == 2 else {})

    segments = {(s.column, s.value) for s in compare_with_rows(tmp_path, actual, window="hour").finding.segments}

    assert ("hour of hour", 2) in segments


@pytest.mark.parametrize("seed", range(5))
def test_differences_at_random_have_no_segment(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 -- drawn again alike
    wrong = {n for n in range(480) if dice.random() < 0.2}
    actual = edit_rows(lambda row: {"amount": 0.0} if row["n"] in wrong else {})

    assert compare_with_rows(tmp_path, actual, key=("hour", "shop", "n"), window="hour").finding.segments == ()


def test_a_rare_kind_of_difference_is_not_crowded_out(tmp_path: Path) -> None:
    many = [{"k": n, "a": 1, "b": 1} for n in range(5 * CELLS_AT_MOST)]
    seldom = {2_450: "missing", 2_400: "b"}
    left = write(tmp_path / "l.parquet", many)
    actual = [row | {seldom.get(row["k"], "a"): 2} for row in many if seldom.get(row["k"]) != "missing"]

    result = compare_tables(DiffRequest(expected=left, actual=write(tmp_path / "r.parquet", actual), key=("k",)))

    assert len(result.finding.differences) == CELLS_AT_MOST
    assert {c.key["k"] for c in result.finding.differences if c.kind == "missing"} == {2_450}
    assert [c.key["k"] for c in result.finding.differences if c.measure == "b" and c.kind == "changed"] == [2_400]


def test_csv_is_compared_with_parquet(tmp_path: Path) -> None:
    rows = [{"k": n, "amount": n / 4, "name": None if n == 3 else f"n{n}"} for n in range(20)]
    left = write(tmp_path / "l.parquet", rows)
    changed_rows = [row | ({"amount": 99.5} if row["k"] == 7 else {}) for row in rows]
    folder = tmp_path / "csv"
    folder.mkdir()
    pyarrow.csv.write_csv(pa.Table.from_pylist(changed_rows[:10]), folder / "1.csv")
    pyarrow.csv.write_csv(pa.Table.from_pylist(changed_rows[10:]), folder / "2.csv")

    result = compare_tables(DiffRequest(expected=left, actual=str(folder), key=("k",)))

    assert [(cell.key["k"], cell.measure, cell.streaming) for cell in result.finding.differences] == [
        (7, "amount", 99.5)
    ]


@pytest.mark.quick
def test_a_folder_of_two_kinds_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", ROWS)
    (tmp_path / "2.csv").write_text("k\n1\n", encoding="utf-8")

    with pytest.raises(DefinitionError, match="expected files of one kind"):
        compare_tables(DiffRequest(expected=str(tmp_path), actual=str(tmp_path), key=("k",)))

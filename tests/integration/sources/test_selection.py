"""`cutover diff --from --to`: windows in a range, of every kind of table, and kept digests of that range alone."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from cutover.cli import app
from cutover.errors import DefinitionError
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.settings import Settings

DAYS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
TYPES: dict[str, pa.DataType] = {
    "moments": pa.timestamp("us", "UTC"),
    "times": pa.timestamp("us"),
    "dates": pa.date32(),
    "nanos": pa.timestamp("ns", "UTC"),
}
RANGES = (
    ["--from", "2024-01-02", "--to", "2024-01-03"],
    ["--from", "2024-01-01T00:00:01", "--to", "2024-01-02T00:00:01Z"],
)


def make_rows(values: list[int], kind: pa.DataType = TYPES["moments"]) -> pa.Table:
    return pa.table(
        {"at": pa.array([day.date() if pa.types.is_date(kind) else day for day in DAYS], kind), "v": values}
    )


def diff(left: Path, right: Path, home: Path, *options: str) -> tuple[int, Any]:
    report = home / "report.json"
    arguments = ["diff", str(left), str(right), "--key", "at", "--window-column", "at", "--report", str(report)]
    exit_code = app.main([*arguments, *options])
    return exit_code, json.loads(report.read_text()) if exit_code < 2 else None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_delta", [False, True])
def test_only_windows_of_the_range_are_compared(home: Path, kind: str, *, is_delta: bool) -> None:
    if is_delta and kind == "nanos":
        pytest.skip("Delta has no nanoseconds")
    left, right = home / "left.parquet", home / "right.parquet"
    for path, values in ((left, [1, 2, 3]), (right, [0, 2, 0])):
        rows = make_rows(values, TYPES[kind])
        write_deltalake(path, rows) if is_delta else pq.write_table(rows, path)

    assert diff(left, right, home)[0] == 1
    for options in RANGES:
        exit_code, report = diff(left, right, home, *options)
        assert (exit_code, report["rows"]["compared"]) == (0, 1)
    assert diff(left, right, home)[0] == 1
    assert diff(left, right, home, "--to", "2023-01-01")[0] == 2  # nothing was compared


def test_a_renamed_window_column_is_selected_on_both_sides(home: Path) -> None:
    left, right = home / "left.parquet", home / "right.parquet"
    pq.write_table(make_rows([1, 2, 3]), left)
    pq.write_table(make_rows([0, 2, 3]).rename_columns(["when", "v"]), right)

    assert diff(left, right, home, "--map", "at=when", "--from", "2024-01-02")[0] == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--key", "at", "--from", "2024-01-01"], "expected `--window-column`"),
        (["--key", "at", "--window-column", "at", "--from", "soon"], "expected a time such as"),
    ],
)
def test_a_range_without_times_is_rejected(
    home: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    pq.write_table(make_rows([1, 2, 3]), home / "t.parquet")

    assert app.main(["diff", str(home / "t.parquet"), str(home / "t.parquet"), *options]) == 2
    assert problem in capsys.readouterr().err


def test_texts_have_no_range(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "t.csv").write_text("at,v\n2024-01-01,1\n")
    table = str(tmp_path / "t.csv")

    with pytest.raises(DefinitionError, match="`at`: expected a date or a timestamp to select rows by, got VARCHAR"):
        compare_tables(DiffRequest(expected=table, actual=table, key=("at",), window="at", times=(0, None)), settings)

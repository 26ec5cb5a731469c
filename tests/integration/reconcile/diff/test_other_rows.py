"""`cutover diff` compares a cell as it would if the other rows of its column were not there."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.errors import DefinitionError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.report import files, page
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report

Side: TypeAlias = "Sequence[str] | pa.Array[Any]"  # cells of CSV, or values of Parquet


def write(folder: Path, name: str, values: Side) -> str:
    if isinstance(values, pa.Array):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"k": [*range(len(values))], "v": values}), path)
    else:
        path = folder / f"{name}.csv"
        path.write_text("k,v\n" + "".join(f"{k},{value}\n" for k, value in enumerate(values)))
    return str(path)


def compare(folder: Path, side: Side, right: Side, **options: Any) -> Report:
    sides = [write(folder, name, values) for name, values in (("l", side), ("r", right))]
    return compare_tables(DiffRequest(expected=sides[0], actual=sides[1], key=("k",), **options))


def doubles(*values: float) -> "pa.Array[Any]":
    return pa.array(values, pa.float64())


def decimals(digits: int, scale: int, *values: str) -> "pa.Array[Any]":
    return pa.array([Decimal(value) for value in values], pa.decimal128(digits, scale))


UNREADABLE: Mapping[str, tuple[str, float]] = {
    "a word": ("word", 5.0),
    "another whole number": ("9007199254740993", 9007199254740992.0),
    "beyond all doubles": ("1e400", float("inf")),
}


@pytest.mark.quick
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("unreadable", UNREADABLE)
def test_an_unreadable_cell_changes_no_other_row(tmp_path: Path, unreadable: str, swapped: bool) -> None:
    cell, double_cell = UNREADABLE[unreadable]
    sides: list[Any] = [["-0.0", "0", "0.30000000000000004", cell], doubles(0.0, -0.0, 0.3, double_cell)]

    finding = compare(tmp_path, *(sides[::-1] if swapped else sides)).finding

    assert (finding.verdict, finding.rows.changed, [column.cells for column in finding.equal_within]) == (
        Verdict.DIVERGED,
        1,
        [1],
    )


@pytest.mark.parametrize("further", [(), (2**53 + 1,)], ids=["alone", "with one that no double holds"])
@pytest.mark.parametrize(
    ("integer", "double", "equal"),
    [(3, 3.0000000000000004, True), (3, 3.0, True), (3, 4.0, False), (2**53, 2.0**53 + 2, False), (3, 3.1, False)],
)
def test_integers_beside_doubles_allow_for_noise_and_no_other_integer(
    tmp_path: Path, integer: int, double: float, equal: bool, further: tuple[int, ...]
) -> None:
    left = pa.array([integer, *further], pa.int64())

    finding = compare(tmp_path, left, doubles(double, *map(float, further))).finding

    assert finding.rows.changed == (not equal) + len(further)


ODD = 2**53 + 1  # no double holds it


@pytest.mark.quick
@pytest.mark.parametrize(("tolerance", "changed_rows"), [(0.0, 1), (0.5, 1), (1.0, 0)])
@pytest.mark.parametrize(
    "number",
    [pa.array([ODD], pa.int64()), decimals(38, 0, str(ODD)), decimals(20, 1, str(ODD)), [str(ODD)]],
    ids=["integer", "decimal", "decimal with a fraction", "csv"],
)
def test_a_tolerance_beside_doubles_counts_digits_that_no_double_holds(
    tmp_path: Path, number: Side, tolerance: float, changed_rows: int
) -> None:
    finding = compare(tmp_path, number, doubles(2.0**53), tolerances={"v": Tolerance(absolute=tolerance)}).finding

    assert (finding.verdict is Verdict.CONSISTENT, finding.rows.changed) == (not changed_rows, changed_rows)


def test_a_long_decimal_beside_a_double_allows_for_noise(tmp_path: Path) -> None:
    long = decimals(38, 2, "123456789012345678.90", "1.50")

    finding = compare(tmp_path, long, doubles(123456789012345678.90, 1.5)).finding

    assert (finding.verdict, [column.cells for column in finding.equal_within]) == (Verdict.CONSISTENT, [1])


@pytest.mark.parametrize(("integer", "double", "equal"), [(2**53, 2.0**53 + 2, False), (3, 3.0, True)])
def test_integers_inside_of_structs_and_lists_are_exact_beside_doubles(
    tmp_path: Path, integer: int, double: float, equal: bool
) -> None:
    """The other field is a sum of doubles on both sides, in which noise is none."""
    left = pa.array([{"a": [integer], "b": 1e17}])

    finding = compare(tmp_path, left, pa.array([{"a": [double], "b": 1e17 + 32}])).finding

    assert (finding.verdict is Verdict.CONSISTENT, finding.rows.changed) == (equal, int(not equal))


START = 1_704_067_200 * 10**9  # 2024-01-01, nanoseconds


@pytest.mark.parametrize(("apart", "equal"), [(1_999, False), (1_000, True), (0, True)])
@pytest.mark.parametrize("zones", [("UTC", "UTC"), (None, None), ("UTC", None)], ids=str)
def test_a_tolerance_of_time_counts_nanoseconds(
    tmp_path: Path, zones: tuple[str | None, str | None], apart: int, equal: bool
) -> None:
    sides = (pa.array([START + n], pa.timestamp("ns", zone)) for n, zone in zip((0, apart), zones, strict=True))

    finding = compare(tmp_path, *sides, tolerances={"v": Tolerance(micros=1)}).finding

    assert finding.verdict is (Verdict.CONSISTENT if equal else Verdict.DIVERGED)


@pytest.mark.quick
@pytest.mark.parametrize("apart", [0, 1])
def test_nanoseconds_with_a_zone_equal_microseconds_without_one(tmp_path: Path, apart: int) -> None:
    left = pa.array([START + apart], pa.timestamp("ns", "UTC"))

    finding = compare(tmp_path, left, pa.array([START // 1_000], pa.timestamp("us"))).finding

    assert (finding.verdict is Verdict.CONSISTENT, finding.rows.changed) == (not apart, apart)


def test_a_window_in_nanoseconds_with_a_zone_can_be_too_young(tmp_path: Path) -> None:
    times = pa.array([START - 1, START], pa.timestamp("ns", "UTC"))
    for name, values in (("l", [1, 2]), ("r", [1, 3])):
        pq.write_table(pa.table({"at": times, "v": values}), tmp_path / f"{name}.parquet")
    left, right = (str(tmp_path / f"{name}.parquet") for name in "lr")

    diff_request = DiffRequest(expected=left, actual=right, key=("at",), window="at", cutoff=START // 1_000)

    assert compare_tables(diff_request).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
@pytest.mark.parametrize(("left", "right"), [("abc", "abd"), ("2", "3"), ("abc", "2")])
def test_rows_whose_numbers_are_written_otherwise_are_not_counted_beside_a_difference(
    tmp_path: Path, left: str, right: str
) -> None:
    finding = compare(tmp_path, ["1.0", "x", left], ["1", "x", right]).finding

    assert (finding.verdict, finding.rows.changed, finding.differences_total) == (Verdict.DIVERGED, 1, 1)
    assert [note for note in finding.notes if "1 row" in note and "--type v=text" in note]


@pytest.mark.quick
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")], ids=str)
def test_a_tolerance_of_time_holds_beside_an_unreadable_cell(tmp_path: Path, kind: pa.DataType) -> None:
    times = pa.array([datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)], kind)

    report = compare(tmp_path, ["2024-01-01 00:00:03", "word"], times, tolerances={"v": Tolerance(micros=5_000_000)})

    assert (report.finding.rows.changed, [column.cells for column in report.finding.equal_within]) == (1, [1])


@pytest.mark.parametrize(("value", "changed_rows"), [("5", 0), ("9e30", 1)])
def test_a_tolerance_holds_for_decimals_whose_types_have_no_common_one(
    tmp_path: Path, value: str, changed_rows: int
) -> None:
    sides = decimals(38, 20, "5.5"), decimals(38, 0, value)

    assert compare(tmp_path, *sides, tolerances={"v": Tolerance(absolute=1.0)}).finding.rows.changed == changed_rows


@pytest.mark.quick
def test_a_tolerance_for_decimals_of_more_digits_than_a_type_has_is_rejected_by_name(tmp_path: Path) -> None:
    sides = decimals(38, 20, "5." + "5" * 20), decimals(38, 0, "9e30")

    with pytest.raises(DefinitionError, match="column `v`: expected numbers of at most 38 digits"):
        compare(tmp_path, *sides, tolerances={"v": Tolerance(absolute=1.0)})


def test_an_unreadable_key_changes_no_other_key(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [0.0, 1.0, 2.0]}), tmp_path / "r.parquet")
    (tmp_path / "l.csv").write_text("k\n-0.0\n1\nx\n")

    diff_request = DiffRequest(expected=str(tmp_path / "l.csv"), actual=str(tmp_path / "r.parquet"), key=("k",))
    finding = compare_tables(diff_request).finding

    assert (finding.rows.missing, finding.rows.extra) == (1, 1)


@pytest.mark.quick
def test_a_tolerance_for_numbers_that_no_type_holds_is_rejected_by_name(tmp_path: Path) -> None:
    long = "1" + "0" * 60

    with pytest.raises(DefinitionError, match="column `v`: expected numbers of at most 38 digits"):
        compare(tmp_path, ["1.0", long], ["1.5", long], tolerances={"v": Tolerance(absolute=1.0)})


@pytest.mark.parametrize(
    ("cell", "number", "tolerance", "is_equal"),
    [
        ("1." + "0" * 40 + "1", 1.0, 1e-45, False),
        ("1." + "0" * 40 + "1", 1.0, 0.01, True),
        ("1" + "0" * 40 + "1", 1e41, 0.5, False),
        ("0.1000000000000000055511151231257827021181583404541015625", 0.1, 0.01, True),
        ("1e-7", 1e-7, 0.0, True),
        ("0." + "0" * 30 + "25", 2.5e-31, 0.0, True),
    ],
)
def test_a_tolerance_finer_than_a_double_counts_the_digits_of_long_numbers(
    tmp_path: Path, cell: str, number: float, tolerance: float, is_equal: bool
) -> None:
    finding = compare(tmp_path, [cell], doubles(number), tolerances={"v": Tolerance(absolute=tolerance)}).finding

    assert (finding.verdict is Verdict.CONSISTENT) is is_equal


@pytest.mark.parametrize(
    ("cell", "fits"),
    [
        ("2024-01-01T05:30:00.123456789+05:30", True),
        ("2023-12-31T14:00:00.123456789-10", True),
        ("2024-01-01 00:00:00.123456789Z", True),
        ("2024-01-01T05:30:00.123456788+05:30", False),
        ("2024-01-01T00:00:00.123456789+25:00", False),
    ],
)
def test_a_time_with_nanoseconds_is_exact_in_every_zone(tmp_path: Path, cell: str, fits: bool) -> None:
    nanoseconds = 1_704_067_200 * 10**9 + 123_456_789

    finding = compare(tmp_path, [cell], pa.array([nanoseconds], pa.timestamp("ns", "UTC"))).finding

    assert (finding.verdict is Verdict.CONSISTENT, finding.rows.changed) == (fits, int(not fits))


@pytest.mark.parametrize(
    ("cell", "moment"),
    [
        ("2024-01-01 24:00:00", datetime(2024, 1, 2, tzinfo=UTC)),
        ("2024-01-01T00:00:00+25:00", datetime(2023, 12, 30, 23, tzinfo=UTC)),
    ],
)
def test_a_time_that_does_not_exist_is_none(tmp_path: Path, cell: str, moment: datetime) -> None:
    finding = compare(tmp_path, [cell], pa.array([moment], pa.timestamp("us", "UTC"))).finding

    assert (finding.verdict, len(finding.notes)) == (Verdict.DIVERGED, 1)


@pytest.mark.quick
def test_page_and_markdown_show_how_tables_were_read(tmp_path: Path) -> None:
    report = compare(tmp_path, ["0.30000000000000004"], doubles(0.3))

    for text in (page.render_page(report), files.render_markdown(report)):
        assert "as on the other side" in text
        assert "1 cell of v equal within 1e-09" in text


FAR = datetime(9999, 12, 31)  # noqa: DTZ001 -- moments in Parquet may have no zone
NEAR = datetime(2024, 1, 1)  # noqa: DTZ001


def nest(values: "pa.Array[Any]", shape: str) -> "pa.Array[Any]":
    """Return an array whose values stand in lists, structs or nowhere."""
    if shape == "list":
        return pa.array([[value.as_py()] for value in values], pa.list_(values.type))
    return values if shape == "flat" else pa.StructArray.from_arrays([values], ["at"])


@pytest.mark.parametrize("shape", ["flat", "list", "struct"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("nanoseconds", [None, START], ids=["null", "another moment"])
def test_a_moment_that_nanoseconds_do_not_hold_differs_from_a_null_and_from_another(
    tmp_path: Path, shape: str, zone: str | None, nanoseconds: int | None
) -> None:
    left = nest(pa.array([FAR, NEAR, None], pa.timestamp("us", zone)), shape)
    right = nest(pa.array([nanoseconds, START, None], pa.timestamp("ns", zone)), shape)

    finding = compare(tmp_path, left, right).finding

    assert (finding.rows.changed, finding.exit_code) == (1, 1)
    assert ["9999-12-31" in str(cell.batch) for cell in finding.differences] == [True]


def test_a_tolerance_holds_for_the_other_moments_of_such_a_column(tmp_path: Path) -> None:
    left = pa.array([FAR, NEAR, NEAR], pa.timestamp("us"))
    right = pa.array([START, START + 1_000, START + 3_000_000_000], pa.timestamp("ns"))

    finding = compare(tmp_path, left, right, tolerances={"v": Tolerance(micros=1)}).finding

    assert finding.rows.changed == 2


@pytest.mark.parametrize("moments", [[None], [START]], ids=str)
def test_a_key_that_nanoseconds_do_not_hold_is_not_the_null_key(tmp_path: Path, moments: list[int | None]) -> None:
    pq.write_table(pa.table({"k": pa.array([FAR], pa.timestamp("us")), "v": [1]}), tmp_path / "l.parquet")
    pq.write_table(pa.table({"k": pa.array(moments, pa.timestamp("ns")), "v": [1]}), tmp_path / "r.parquet")
    left, right = (str(tmp_path / f"{name}.parquet") for name in "lr")

    rows = compare_tables(DiffRequest(expected=left, actual=right, key=("k",))).finding.rows

    assert (rows.missing, rows.extra, rows.changed) == (1, 1, 0)


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("shape", ["flat", "list", "struct"])
@pytest.mark.parametrize("is_fine", [True, False])
def test_moments_one_nanosecond_apart_are_shown_with_it(
    tmp_path: Path, zone: str | None, shape: str, *, is_fine: bool
) -> None:
    kind = pa.timestamp("ns", zone) if is_fine else pa.timestamp("us", zone)
    left = nest(pa.array([START if is_fine else NEAR], kind), shape)
    right = nest(pa.array([START + 1], pa.timestamp("ns", zone)), shape)

    (cell,) = compare(tmp_path, left, right).finding.differences

    assert "00:00:00.000000001" in str(cell.streaming)
    assert "00:00:00.000000001" not in str(cell.batch)


DAY = pa.array([date(2024, 1, 1)])


@pytest.mark.parametrize(
    "other", [["2024-01-01 00:00:00"], ["2024-01-01"], pa.array([START], pa.timestamp("ns")), DAY], ids=str
)
def test_dates_that_are_stated_to_be_moments_are_midnights(tmp_path: Path, other: Side) -> None:
    for n, sides in enumerate([(DAY, other), (other, DAY)]):
        folder = tmp_path / str(n)
        folder.mkdir()

        finding = compare(folder, *sides, types={"v": "TIMESTAMP"}).finding

        assert finding.verdict is Verdict.CONSISTENT
        read_types = {column.type for side in finding.readings for column in side.columns if column.column == "v"}
        assert read_types == {"timestamp"}


def test_a_date_is_no_moment_until_it_is_stated_to_be_one(tmp_path: Path) -> None:
    finding = compare(tmp_path, DAY, pa.array([START], pa.timestamp("ns"))).finding

    assert finding.verdict is Verdict.DIVERGED
    assert any("--type v=timestamp" in note for note in finding.notes)


def test_no_reading_is_listed_for_a_column_that_keeps_its_type(tmp_path: Path) -> None:
    finding = compare(tmp_path, ["1"], pa.array([1]), types={"v": "DOUBLE"}).finding

    readings = [(side.side, column.type) for side in finding.readings for column in side.columns]
    assert (finding.verdict, [r for r in readings if r[1] == "double"]) == (
        Verdict.CONSISTENT,
        [("expected", "double")],
    )

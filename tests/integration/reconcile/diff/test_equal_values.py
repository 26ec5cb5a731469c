"""`cutover diff` calls values equal that are, and others only within a tolerance that it counts."""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.errors import DefinitionError
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import EqualWithin, Rows, Verdict
from cutover.reconcile.result.report import Report

NOISE = 0.1 + 0.2
"""A sum of doubles next to 0.3."""

NULL_TYPES = (pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.null(), pa.list_(pa.int32()))


def compare(folder: Path, left: "pa.Array[Any]", right: "pa.Array[Any]", **options: Any) -> Report:
    sides = []
    for name, values in (("l", left), ("r", right)):
        pq.write_table(pa.table({"k": [*range(len(values))], "v": values}), folder / f"{name}.parquet")
        sides.append(str(folder / f"{name}.parquet"))
    return compare_tables(DiffRequest(expected=sides[0], actual=sides[1], key=("k",), **options))


WHOLE: Mapping[str, tuple[float, float, Verdict]] = {
    "an id": (1234567890123.0, 1234567890124.0, Verdict.DIVERGED),
    "microseconds of an epoch": (1.7e15, 1.7e15 + 1, Verdict.DIVERGED),
    "the last exact one": (2.0**53 - 2, 2.0**53 - 1, Verdict.DIVERGED),
    "beyond the exact ones": (2.0**53, 2.0**53 + 2, Verdict.CONSISTENT),
    "negative": (-4200000000.0, -4200000001.0, Verdict.DIVERGED),
    "a whole number and a sum near it": (100.0, 100.00000000000001, Verdict.CONSISTENT),
    "two sums": (1e9 + 0.25, 1e9 + 0.5, Verdict.CONSISTENT),
}
WRAPPED: Mapping[str, Callable[[float], Any]] = {
    "plain": lambda value: value,
    "list": lambda value: [None, value],
    "struct": lambda value: {"a": "x", "b": value},
    "map": lambda value: [("a", value)],
    "list of structs": lambda value: [{"a": [value]}, None],
}
TYPES: Mapping[str, pa.DataType] = {
    "plain": pa.float64(),
    "list": pa.list_(pa.float64()),
    "struct": pa.struct([("a", pa.string()), ("b", pa.float64())]),
    "map": pa.map_(pa.string(), pa.float64()),
    "list of structs": pa.list_(pa.struct([("a", pa.list_(pa.float64()))])),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", WHOLE)
def test_whole_numbers_that_doubles_hold_are_exact_wherever_they_stand(tmp_path: Path, case: str) -> None:
    left, right, expected = WHOLE[case]
    sides = []
    for name, value in (("l", left), ("r", right)):
        columns = {wrapped: pa.array([wrap(value), None], TYPES[wrapped]) for wrapped, wrap in WRAPPED.items()}
        pq.write_table(pa.table({"k": [0, 1], **columns}), tmp_path / f"{name}.parquet")
        sides.append(str(tmp_path / f"{name}.parquet"))

    finding = compare_tables(DiffRequest(expected=sides[0], actual=sides[1], key=("k",))).finding

    near = {
        EqualWithin(column=wrapped, cells=1, tolerance="1e-09 of the larger value", is_default=True)
        for wrapped in WRAPPED
    }
    is_near = expected is Verdict.CONSISTENT
    assert (finding.verdict, set(finding.equal_within)) == (expected, near if is_near else set())
    assert {cell.measure for cell in finding.differences} == (set() if is_near else set(WRAPPED))


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_cells_equal_within_a_tolerance_are_counted(tmp_path: Path, wrapped: str) -> None:
    values = [(0.3, NOISE), (0.5, 0.5), (7.0, 7.4), (1.25, 1.5)]
    sides = (pa.array([WRAPPED[wrapped](pair[n]) for pair in values], TYPES[wrapped]) for n in (0, 1))

    report = compare(tmp_path, *sides, tolerances={"v": Tolerance(absolute=0.5)})

    assert report.finding.verdict is Verdict.CONSISTENT
    assert report.finding.equal_within == (EqualWithin(column="v", cells=3, tolerance="0.5", is_default=False),)


def test_cells_of_repeated_keys_are_counted_too(tmp_path: Path) -> None:
    sides = []
    for name, values in (("l", [0.3, 5.5, 0.7]), ("r", [5.5, NOISE, 0.7])):
        pq.write_table(pa.table({"k": [1, 1, 2], "v": values}), tmp_path / f"{name}.parquet")
        sides.append(str(tmp_path / f"{name}.parquet"))

    tables = compare_tables(DiffRequest(expected=sides[0], actual=sides[1], key=("k",)))

    assert (tables.finding.verdict, [column.cells for column in tables.finding.equal_within]) == (
        Verdict.CONSISTENT,
        [1],
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param([1.5], [1.5, None], id="a further null"),
        pytest.param([NOISE, 1.5], [1.5, 0.3], id="another order"),
        pytest.param([], None, id="empty beside null"),
        pytest.param([None], [0.0], id="null beside zero"),
        pytest.param([float("nan")], [1.5], id="NaN against a number"),
        pytest.param([float("inf")], [1e308], id="infinity against a number"),
    ],
)
def test_lists_are_no_nearer_than_their_numbers(
    tmp_path: Path, left: Sequence[Any], right: Sequence[Any] | None
) -> None:
    sides = (pa.array([values], pa.list_(pa.float64())) for values in (left, right))

    assert compare(tmp_path, *sides).finding.rows == Rows(compared=1, changed=1)


def struct_of(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields])


@pytest.mark.quick
@pytest.mark.parametrize(("value", "expected"), [(2, Verdict.CONSISTENT), (3, Verdict.DIVERGED)])
@pytest.mark.parametrize("depth", [0, 1])
def test_structs_compare_by_name_and_integers_by_value(
    tmp_path: Path, value: int, expected: Verdict, depth: int
) -> None:
    data_type = struct_of(("a", pa.int32()), ("b", pa.list_(pa.int16())))
    right = struct_of(("b", pa.list_(pa.int64())), ("a", pa.int64()))
    rows: tuple[list[Any], list[Any]] = [{"a": 1, "b": [2]}], [{"a": 1, "b": [value]}]
    if depth:
        data_type, right = pa.list_(data_type), pa.list_(right)
        rows = [rows[0]], [rows[1]]

    report = compare(tmp_path, pa.array(rows[0], data_type), pa.array(rows[1], right))

    assert (report.finding.verdict, report.finding.rows.changed) == (expected, int(expected is Verdict.DIVERGED))


def test_a_field_of_one_side_only_is_a_difference_of_the_schema(tmp_path: Path) -> None:
    left, right = struct_of(("a", pa.int64())), struct_of(("a", pa.int64()), ("b", pa.int64()))

    report = compare(tmp_path, pa.array([{"a": 1}], left), pa.array([{"a": 1, "b": 2}], right))

    assert (report.finding.verdict, report.finding.rows.changed) == (Verdict.DIVERGED, 0)
    assert "Field `v.b` is on the actual side only." in report.finding.notes


@pytest.mark.parametrize("left", NULL_TYPES, ids=str)
@pytest.mark.parametrize("right", NULL_TYPES, ids=str)
def test_a_column_that_is_null_everywhere_has_no_type_of_its_own(
    tmp_path: Path, left: pa.DataType, right: pa.DataType
) -> None:
    nulls = compare(tmp_path, pa.array([None, None], left), pa.array([None, None], right))

    assert nulls.finding.verdict is Verdict.CONSISTENT


NESTS: Mapping[str, tuple[Callable[[str, pa.DataType], pa.DataType], Callable[[str, Any], Any]]] = {
    "struct": (lambda name, kind: struct_of((name, kind)), lambda name, value: {name: value}),
    "list": (lambda name, kind: pa.list_(struct_of((name, kind))), lambda name, value: [{name: value}, None]),
    "map": (
        lambda name, kind: pa.map_(pa.string(), struct_of((name, kind))),
        lambda name, value: [("a", {name: value})],
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("shared", [False, True])
def test_fields_that_differ_in_case_alone_are_named_as_columns_are(tmp_path: Path, nest: str, shared: bool) -> None:
    wrap, fill = NESTS[nest]
    kinds = [wrap("s", struct_of((name, pa.int64()), *[("y", pa.int64())] * shared)) for name in ("x", "X")]
    rows = [[fill("s", {name: 1} | ({"y": 2} if shared else {}))] for name in ("x", "X")]

    report = compare(tmp_path, pa.array(rows[0], kinds[0]), pa.array(rows[1], kinds[1]))

    assert (report.finding.verdict, report.finding.rows.changed) == (Verdict.DIVERGED, int(not shared))
    assert any("s.x` and `v" in note and "--exclude v" in note for note in report.finding.notes)


@pytest.mark.parametrize("value", [None, 1])
@pytest.mark.parametrize("shared", [(), (("z", pa.int64()),)])
def test_a_struct_that_is_null_everywhere_has_no_fields_of_its_own(
    tmp_path: Path, value: int | None, shared: tuple[tuple[str, pa.DataType], ...]
) -> None:
    left = pa.array([None, None], struct_of(("x", pa.int64()), *shared))
    right = pa.array([None, value and {"y": value}], struct_of(("y", pa.int64()), *shared))

    for sides in ((left, right), (right, left)):
        report = compare(tmp_path, *sides)
        assert (report.finding.verdict, report.finding.rows.changed) == (
            (Verdict.DIVERGED, 1) if value else (Verdict.CONSISTENT, 0)
        )


@pytest.mark.quick
@pytest.mark.parametrize("left", NULL_TYPES, ids=str)
@pytest.mark.parametrize("right", [pa.string(), pa.list_(pa.int32())], ids=str)
@pytest.mark.parametrize("nest", [*NESTS, "elements", "no elements"])
def test_a_part_that_is_null_everywhere_has_no_type_of_its_own(
    tmp_path: Path, left: pa.DataType, right: pa.DataType, nest: str
) -> None:
    sides = []
    for kind in (left, right):
        if nest in NESTS:
            wrap, fill = NESTS[nest]
            inner = struct_of(("x", pa.int8()), ("y", kind))
            sides.append(pa.array([fill("s", {"x": 1, "y": None}), None], wrap("s", inner)))
        else:
            sides.append(pa.array([[None] * (nest == "elements"), None], pa.list_(kind)))

    assert compare(tmp_path, *sides).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("other", ["a", None])
def test_a_part_of_nulls_beside_values_differs_by_the_values_alone(tmp_path: Path, other: str | None) -> None:
    left, right = (struct_of(("x", pa.int8()), ("y", pa.list_(kind))) for kind in (pa.int8(), pa.string()))
    rows = [{"x": 1, "y": [None]}], [{"x": 1, "y": [other]}]

    report = compare(tmp_path, pa.array(rows[0], left), pa.array(rows[1], right))

    assert (report.finding.verdict, report.finding.rows.changed) == (
        (Verdict.DIVERGED, 1) if other else (Verdict.CONSISTENT, 0)
    )


def test_nulls_beside_values_differ_by_the_values_alone(tmp_path: Path) -> None:
    report = compare(tmp_path, pa.array([None, None], pa.int64()), pa.array(["a", None]))

    assert (report.finding.verdict, report.finding.rows) == (Verdict.DIVERGED, Rows(compared=2, changed=1))


@pytest.mark.parametrize(("tolerance", "expected"), [(None, Verdict.DIVERGED), (1.0, Verdict.CONSISTENT)])
def test_a_whole_number_that_no_double_holds_is_shown(
    tmp_path: Path, tolerance: float | None, expected: Verdict
) -> None:
    tolerances = {} if tolerance is None else {"v": Tolerance(absolute=tolerance)}
    integers, floats = pa.array([2**53 + 1, 7, None]), pa.array([2.0**53, 7.0, None])

    for sides in ((integers, floats), (floats, integers)):
        report = compare(tmp_path, *sides, tolerances=tolerances)
        assert (report.finding.verdict, len(report.finding.differences)) == (expected, int(tolerance is None))


def test_decimals_that_no_common_type_holds_are_compared_by_their_digits(tmp_path: Path) -> None:
    left = pa.array([Decimal("1" * 30), Decimal("0.5")], pa.decimal128(38, 1))
    right = pa.array([Decimal("1" * 28), Decimal("0.5")], pa.decimal128(38, 10))
    equal_values = pa.array([Decimal("1" * 28), Decimal("0.5")], pa.decimal128(38, 1))

    assert compare(tmp_path, left, right).finding.rows == Rows(compared=2, changed=1)
    assert compare(tmp_path, equal_values, right).finding.verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("duration", [pa.duration("s"), pa.duration("ns")], ids=str)
@pytest.mark.parametrize("is_list", [False, True])
def test_durations_are_rejected_by_name_on_either_side(tmp_path: Path, duration: pa.DataType, is_list: bool) -> None:
    kind = pa.list_(duration) if is_list else duration
    integer_type = pa.list_(pa.int64()) if is_list else pa.int64()
    left, right = (pa.array([[5] if is_list else 5], data_type) for data_type in (kind, integer_type))

    for sides, side in (((left, right), "expected"), ((right, left), "actual")):
        with pytest.raises(
            DefinitionError, match=rf"`v` of the {side} side: .*{re.escape(str(duration))}.*\n.*--exclude v"
        ):
            compare(tmp_path, *sides)
    assert compare(tmp_path, left, right, excluded=("v",)).finding.verdict is Verdict.CONSISTENT


@pytest.mark.quick
def test_decimals_of_more_digits_than_the_engine_has_are_rejected_by_name(tmp_path: Path) -> None:
    values = pa.array([Decimal("1" * 45)], pa.decimal256(50, 0))

    with pytest.raises(DefinitionError, match=r"Column `v` of the expected side: .* 38 digits.*\n.*--exclude v"):
        compare(tmp_path, values, values)
    assert compare(tmp_path, values, values, excluded=("v",)).finding.verdict is Verdict.CONSISTENT

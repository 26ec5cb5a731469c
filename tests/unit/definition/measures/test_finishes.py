"""Measure states finished by DuckDB: hand-computed values, empty states, and error bounds."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from cutover.definition import (
    ApproxDistinct,
    Avg,
    Bag,
    Count,
    First,
    Max,
    Quantile,
    Stddev,
    Sum,
    TopK,
    Variance,
)
from cutover.definition.measures import doubles
from cutover.definition.measures.kinds import Measure
from cutover.definition.measures.states import Finish, compute_sum_type, parse_scale

FIRST = 1_075 * 128  # number of the bucket that begins at 1, of 128 buckets from a power of two to the next


def finish(measure: Measure, value_type: str, **states: str) -> Any:
    """Compute the result of a state whose columns are SQL expressions."""
    finisher = measure.finish("x", value_type)
    assert isinstance(finisher, Finish)
    columns = ", ".join(f"{value} AS x__{name}" for name, value in states.items())
    return duckdb.execute(f"SELECT {finisher.sql} FROM (SELECT {columns})").fetchall()[0][0]  # noqa: S608 -- ours


def counts(counts_by_value: dict[int, int], kind: str = "BIGINT") -> str:
    entries = ", ".join(
        f"{{'value': {value}::{kind}, 'count': {count}::BIGINT}}" for value, count in counts_by_value.items()
    )
    return f"[{entries}]"


@pytest.mark.parametrize(
    ("q", "buckets", "expected"),
    [
        pytest.param(0.5, {FIRST: 1, FIRST + 128: 1, FIRST + 192: 1, FIRST + 256: 1}, 2.0, id="the second of four"),
        pytest.param(0.75, {FIRST: 1, FIRST + 128: 1, FIRST + 192: 1, FIRST + 256: 1}, 3.0, id="the third of four"),
        pytest.param(0.750001, {FIRST: 1, FIRST + 128: 1, FIRST + 192: 1, FIRST + 256: 1}, 4.0, id="a millionth more"),
        pytest.param(0.0, {FIRST: 2, FIRST + 128: 1}, 1.0, id="the least"),
        pytest.param(1.0, {FIRST: 2, FIRST + 128: 1}, 2.0, id="the greatest"),
        pytest.param(0.5, {FIRST: 3, FIRST + 128: 3}, 1.0, id="each as often as it came"),
        pytest.param(0.5, {-FIRST - 128: 1, 0: 1, FIRST: 1}, 0.0, id="zero"),
        pytest.param(0.0, {-FIRST - 128: 1, 0: 1, FIRST: 1}, -2.0, id="below zero"),
        pytest.param(0.5, {FIRST - 128 + 64: 1}, 0.75, id="a fraction"),
    ],
)
def test_a_quantile_is_the_bound_of_the_bucket_of_its_rank(q: float, buckets: dict[int, int], expected: float) -> None:
    assert finish(Quantile("v", q), "double", buckets=counts(buckets)) == expected


def test_a_quantile_of_nothing_is_null() -> None:
    assert finish(Quantile("v", 0.5), "double", buckets="NULL::STRUCT(value BIGINT, count BIGINT)[]") is None


@pytest.mark.parametrize(("error", "bits"), [(0.01, 7), (0.5, 1), (1 / 128, 7), (0.0078, 8)])
def test_buckets_are_no_wider_than_the_error(error: float, bits: int) -> None:
    assert Quantile("v", 0.5, error).bits == bits


def test_the_most_frequent_come_first_and_of_equal_ones_the_smaller() -> None:
    top_values = finish(TopK("v", 3), "bigint", counts=counts({1: 2, 5: 9, 7: 2, 8: 3}))

    assert top_values == [{"value": 5, "count": 9}, {"value": 8, "count": 3}, {"value": 1, "count": 2}]


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        pytest.param("NULL::BIGINT[]", 0, id="none"),
        pytest.param("[-5, 3, 7]::BIGINT[]", 3, id="fewer than k are counted"),
        pytest.param(f"[-5, 3, 7, {2**62}]::BIGINT[]", 3 * 2**64 // (2**62 + 2**63), id="k are an estimate"),
        pytest.param(
            f"[-9, -8, -7, {-(2**62)}]::BIGINT[]", 3 * 2**64 // (2**63 - 2**62), id="denser ones a larger one"
        ),
    ],
)
def test_different_values_are_counted_below_k_and_estimated_from_the_kth_hash(hashes: str, expected: int) -> None:
    assert finish(ApproxDistinct("v", 4), "bigint", hashes=hashes) == expected


def exactly(values: list[int], scale: int = 0) -> float:
    """Return the sample variance of values in units of their last digit."""
    mean = Fraction(sum(values), len(values))
    return float(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / 10 ** (2 * scale))


@pytest.mark.parametrize(("kind", "scale"), [("bigint", 0), ("decimal(9,2)", 2)])
@pytest.mark.parametrize(
    "values", [[1, 2, 4], [-1, -2, -4], [7, 7], [10**9, 10**9 + 1, 10**9 + 3], [-5, 5], [0, 0, 0, 1]], ids=str
)
def test_variance_loses_nothing_to_cancellation(values: list[int], kind: str, scale: int) -> None:
    states = {
        "count": str(len(values)),
        "sum": f"{sum(values)}::DECIMAL(38,0)",
        "squares": f"{sum(value * value for value in values)}::DECIMAL(38,0)",
    }
    expected = exactly(values, scale)

    assert finish(Variance("v"), kind, **states) == pytest.approx(expected, rel=1e-15)
    assert finish(Stddev("v"), kind, **states) == pytest.approx(expected**0.5, rel=1e-15)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("kind", ["bigint", "double"])
def test_fewer_than_two_values_have_no_variance(count: int, kind: str) -> None:
    state = f"nullif({count}, 0)::DECIMAL(38,0)" if kind == "bigint" else digits(1.0 * count)

    assert finish(Variance("v"), kind, count=str(count), sum=state, squares=state) is None


def digits(value: float) -> str:
    """Format the state of one double as SQL, digit by digit."""
    units, places = doubles.to_units(value), []
    for _ in range(doubles.DIGITS - 1):
        units, place = divmod(units, 2**doubles.PLACES)
        places.append(place)
    digit_places = zip(doubles.DIGIT_NAMES, [*places, units], strict=True)
    return "{" + ", ".join(f"'{name}': {place}::BIGINT" for name, place in digit_places) + "}"


def test_a_mean_of_doubles_is_the_digit_sum_divided_by_the_count() -> None:
    assert finish(Avg("v"), "double", digits=digits(7.5), count="3") == 2.5
    assert finish(Avg("v"), "double", digits=digits(0.0), count="0") is None
    assert finish(Sum("v"), "double", digits=digits(-0.375)) == -0.375


def test_a_bag_gives_its_values_in_order_and_is_null_without_any() -> None:
    rows = "[{'event_time': 1, 'value': 'b'}, {'event_time': 2, 'value': 'a'}]"

    assert finish(Bag("v"), "string", rows=rows) == ["b", "a"]
    assert finish(Bag("v"), "string", rows="[{'event_time': 1, 'value': 'b'}]") == ["b"]
    assert finish(Bag("v"), "string", rows="[]::STRUCT(event_time INT, value VARCHAR)[]") is None


@pytest.mark.parametrize(
    ("kind", "scale", "total"),
    [
        (None, 0, "decimal(38,0)"),
        ("bigint", 0, "decimal(38,0)"),
        ("decimal(9,2)", 2, "decimal(38,2)"),
        ("decimal(9,0)", 0, "decimal(38,0)"),
    ],
)
def test_a_sum_keeps_its_decimal_places(kind: str | None, scale: int, total: str) -> None:
    assert (parse_scale(kind), compute_sum_type(kind)) == (scale, total)


@pytest.mark.parametrize(
    ("measure", "kind", "own_tolerance", "other"),
    [
        (Count(), None, None, None),
        (Sum("v"), "double", None, None),
        (Max("v"), "double", None, None),
        (Avg("v"), "double", None, None),
        (First("v"), "double", None, None),
        (TopK("v"), "string", None, None),
        (Bag("v"), "string", None, None),
        (Variance("v"), "bigint", None, None),
        (Variance("v"), "double", None, 1e-6),
        (Quantile("v", 0.5, 0.02), "double", 0.0, 0.02),
        (ApproxDistinct("v", 100), "bigint", None, 0.5),
    ],
    ids=str,
)
def test_only_estimates_have_a_tolerance(
    measure: Measure, kind: str | None, own_tolerance: float | None, other: float | None
) -> None:
    assert (measure.tolerance(kind, same_definition=True), measure.tolerance(kind, same_definition=False)) == (
        own_tolerance,
        other,
    )


def test_half_a_unit_rounds_to_even() -> None:
    unit = Decimal(2) ** doubles.LOWEST

    assert [doubles.to_units(float(unit * n)) for n in (Decimal("0.5"), Decimal("1.5"), Decimal("2.5"), 3)] == [
        0,
        2,
        2,
        3,
    ]
    assert doubles.from_units(3) == float(unit * 3)

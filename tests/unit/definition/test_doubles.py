"""Sums of doubles by digits: the nearest double to the exact sum, whatever the order, the split and the magnitudes."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cutover.definition.measures import doubles
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.reconcile.comparison.layout import same
from cutover.records.reference.measures import stddev, variance
from tests.support.rows.digits import digits_of

BELOW = math.nextafter(doubles.SUM_LIMIT, 0.0)
HOSTILE = [0.0, 0.1, -0.1, 1e16, -1e16, 5e-324, 1e-300, 2.0**-180, 2.0**-181, BELOW, -BELOW, 1e15 + 0.3, 1 / 3]
VALUES = st.lists(st.one_of(st.sampled_from(HOSTILE), st.floats(-BELOW, BELOW)), min_size=1, max_size=12)
FEW = settings(max_examples=15, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def total(connection: duckdb.DuckDBPyConnection, parts: Sequence[Sequence[float]]) -> float | None:
    """Compute the sum of values as the paths do: merge the states of parts, then finish."""
    states = pa.table(
        {"part": [i for i, p in enumerate(parts) for _ in p], "s": [digits_of(v) for p in parts for v in p]}
    )
    connection.register("states", states)
    merged = f"SELECT {doubles.merge_digits_sql('s')} AS s FROM states GROUP BY part"  # noqa: S608 -- ours
    twice = f"SELECT {doubles.merge_digits_sql('s')} AS s FROM ({merged})"  # noqa: S608 -- ours
    result: float | None = connection.execute(f"SELECT {doubles.total_sql('s')} FROM ({twice})").fetchall()[0][0]  # noqa: S608 -- ours
    return result


@FEW
@given(values=VALUES, data=st.data())
def test_a_sum_is_the_same_for_any_order_and_split(
    connection: duckdb.DuckDBPyConnection, values: list[float], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(values))
    at = data.draw(st.integers(0, len(values)))
    expected = doubles.from_units(sum(map(doubles.to_units, values)))

    total_value = total(connection, [shuffled[:at], shuffled[at:]])

    assert total_value == total(connection, [values])
    assert total_value is not None
    assert abs(total_value - expected) <= math.ulp(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e16, 1.0, -1e16], 1.0),  # a payment and its reversal
        ([0.1] * 10, 1.0),
        ([0.1, 0.2, -0.3], float(Fraction(0.1) + Fraction(0.2) - Fraction(0.3))),
        ([BELOW, 2.0**-179, -BELOW], 2.0**-179),
        ([5e-324], 0.0),  # below the lowest digit
        ([2.0**-180, 2.0**-180], 2.0**-179),
    ],
)
def test_values_that_cancel_leave_the_remainder(
    connection: duckdb.DuckDBPyConnection, values: list[float], expected: float
) -> None:
    assert total(connection, [values]) == expected


@FEW
@given(values=VALUES)
def test_pairs_are_summed_as_records_are(connection: duckdb.DuckDBPyConnection, values: list[float]) -> None:
    connection.register("pairs", pa.table({"v": values, "w": [3] * len(values)}))
    summed = doubles.weighted_sum_sql("v", "w")

    rows = connection.execute(f"SELECT {doubles.total_sql('s')} FROM (SELECT {summed} AS s FROM pairs)").fetchall()  # noqa: S608 -- ours

    assert rows[0][0] == total(connection, [values * 3])


SMALL = [0.0, 7e-28, 5.5e-28, -7e-28, 1e-27, 1e-55, -1e-55, 5e-324, 2.0**-90, 2.0**-91, 1.0, 1 + 2.0**-52, 1e26, -1e26]
SQUARES = st.lists(st.sampled_from(SMALL) | st.floats(-6e26, 6e26) | st.floats(-1e-26, 1e-26), min_size=2, max_size=8)


@pytest.mark.parametrize(
    ("measure", "plain"), [pytest.param(Variance("v"), variance, marks=pytest.mark.long), (Stddev("v"), stddev)]
)
@settings(FEW, max_examples=100)
@example(values=[1e-55, 5e-324])
@example(values=[7e-28, -7e-28])
@example(values=[5.8e-28] * 3)
@given(values=SQUARES)
def test_a_spread_matches_plain_python_within_its_bound(
    connection: duckdb.DuckDBPyConnection, measure: Variance, plain: Callable[[list[float]], float], values: list[float]
) -> None:
    states = {"x__sum": map(digits_of, values), "x__squares": (digits_of(v * v) for v in values)}
    connection.register("spreads", pa.table({name: list(column) for name, column in states.items()}))
    merged = ", ".join(f"{doubles.merge_digits_sql(name)} AS {name}" for name in states)
    query = f"SELECT {measure.finish('x', 'double').sql} FROM (SELECT count(*) AS x__count, {merged} FROM spreads)"  # noqa: S608 -- ours

    (result,) = connection.execute(query).fetchall()[0]

    assert same(plain(values), result)

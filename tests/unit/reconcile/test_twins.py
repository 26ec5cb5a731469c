"""Which of two twins counts: what changes places is put in and taken out exactly, or left as it was."""

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Max, Min, Pipeline, Sum, Topic
from cutover.lake.schemas import partial_schema
from reconcile import twins

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, k string, v int, i int NOT NULL", event_time="at", record_id="i"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count(), "total": Sum("v"), "low": Min("v"), "high": Max("v")},
)
WINDOW = {"window_start": 0, "window_end": 3_600_000_000}
VALUES = st.one_of(st.none(), st.integers(-3, 3))


def partial(value: int | None) -> dict[str, Any]:
    return {**WINDOW, "_class": "accepted", "k": "a", "n": 1, "total": value, "low": value, "high": value, "_n": 1}


def table(values: Sequence[int | None]) -> pa.Table:
    return pa.Table.from_pylist(list(map(partial, values)), schema=partial_schema(PIPELINE))


def after(
    counted: Sequence[int | None], *, out: Sequence[int | None], put: Sequence[int | None]
) -> tuple[Any, ...] | None:
    """Return n, total, low, high of one window once some of its records have changed places with others."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register(twins.TRUTH, table(counted))
    signs = pa.array([1] * len(put) + [-1] * len(out), pa.int64())
    connection.register(twins.SWAPPED, table([*put, *out]).append_column("sign", signs))
    connection.execute(f"CREATE TABLE moved AS SELECT DISTINCT window_start, k FROM {twins.SWAPPED}")  # noqa: S608 -- ours
    rows = connection.sql(twins.settled_sql(PIPELINE, "moved")).select("n, total, low, high").fetchall()
    return rows[0] if rows else None


def truth(values: Sequence[int | None]) -> tuple[Any, ...]:
    known = [value for value in values if value is not None]
    return (len(values), sum(known) if known else None, min(known, default=None), max(known, default=None))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rest=st.lists(VALUES, max_size=4), out=VALUES, put=VALUES)
def test_records_that_change_places_are_counted_exactly_or_the_value_stays(
    rest: list[int | None], out: int | None, put: int | None
) -> None:
    counted = [*rest, out]
    found, expected, before = after(counted, out=[out], put=[put]), truth([*rest, put]), truth(counted)

    assert found is not None
    assert found[0] == expected[0]
    assert (found[1] or 0) == (expected[1] or 0)
    for new, true, old in zip(found[2:], expected[2:], before[2:], strict=True):
        assert new in {true, old}


def test_a_twin_with_the_same_fields_changes_nothing() -> None:
    assert after([1, 5, 3], out=[5], put=[5]) == truth([1, 5, 3])


def test_a_minimum_that_is_not_taken_out_is_known() -> None:
    assert after([1, 5], out=[5], put=[0]) == (2, 1, 0, 5)  # the maximum beneath 5 is not known
    assert after([1, 5], out=[5], put=[7]) == (2, 8, 1, 7)


def test_a_key_whose_only_record_moves_elsewhere_is_gone_and_a_new_one_is_there() -> None:
    assert after([5], out=[5], put=[]) is None
    assert after([], out=[], put=[4]) == truth([4])


ROWS = {  # table -> (offset, id) of its rows, all of one window and event time
    "the stream counted the other twin": ({"stream_twins": [(3, 1)], "batch_twins": [(5, 1)]}, [(3, 1), (5, -1)]),
    "the twin that batch counts is late": ({"late_rows": [(3, 1)], "batch_twins": [(5, 1)]}, [(5, -1)]),
    "the stream counted both": ({"batch_twins": [(5, 1)]}, []),
    "the stream counted both, and another record is late": ({"late_rows": [(3, 2)], "batch_twins": [(5, 1)]}, []),
    "the stream counted none": ({"stream_twins": [(3, 1)]}, []),
    "the stream counted none, and batch another once": ({"stream_twins": [(3, 1)], "batch_twins": [(5, 2)]}, []),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_swap_is_believed_among_twins_alone(case: str) -> None:
    given_rows, expected = ROWS[case]
    kinds = "window_start BIGINT, __partition INTEGER, __offset BIGINT, __event BIGINT, __id BIGINT"
    with duckdb.connect() as connection:
        for name in ("stream_twins", "batch_twins", "late_rows", "left_out"):
            connection.execute(f"CREATE TABLE {name} ({kinds})")
            for offset, number in given_rows.get(name, ()):
                connection.execute(f"INSERT INTO {name} VALUES (0, 0, {offset}, 7, {number})")  # noqa: S608 -- ours
        twins.swap(connection)
        found = connection.execute("SELECT __offset, sign FROM swapped ORDER BY 1").fetchall()

    assert found == expected

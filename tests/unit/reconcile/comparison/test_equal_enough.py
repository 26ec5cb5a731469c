"""Equality: kinds of types, tolerances at their exact bounds, and values of plain Python against a table's."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from cutover.definition import Avg, Count, Fixed, Pipeline, Sum, Topic
from cutover.engine import queries
from cutover.reconcile.comparison import layout
from cutover.reconcile.comparison.column_types import is_alike, is_number, is_time, kind_of
from cutover.reconcile.comparison.diff import NO_BUDGET, Budget, diff_relations
from cutover.reconcile.comparison.layout import (
    FLOAT_RELATIVE,
    KEY_BUCKETS,
    Layout,
    Value,
    additive,
    make_default_comparison,
    narrow_types,
    wide_columns,
)
from cutover.records.reference import ApproximateFloat

NAN = math.nan
NEAR = Value(name="v", exact=False, absolute=0.5, relative=0.25)
TIMED = Value(name="v", exact=False, micros=1_000_000)
LAYOUT = Layout(keys=("w", "k"), values=(make_default_comparison("n", "BIGINT"),), group="w", wide=frozenset())


@pytest.mark.parametrize(
    ("name", "kind", "number", "time"),
    [
        ("BIGINT", "whole", True, False),
        ("HUGEINT", "whole", True, False),
        ("DOUBLE", "float", True, False),
        ("DECIMAL(9,2)", "decimal", True, False),
        ("TIMESTAMP WITH TIME ZONE", "timestamp", False, True),
        ("DATE", "DATE", False, True),
        ("VARCHAR", "VARCHAR", False, False),
        ("DECIMAL(9,2)[]", "DECIMAL(9,2)[]", False, False),
        ("TIMESTAMP[]", "TIMESTAMP[]", False, False),
    ],
)
def test_a_type_has_a_kind(name: str, kind: str, *, number: bool, time: bool) -> None:
    assert (kind_of(name), is_number(name), is_time(name)) == (kind, number, time)


@pytest.mark.parametrize(
    ("left_type", "right_type", "expected"),
    [
        ("BIGINT", "DOUBLE", True),
        ("DECIMAL(9,2)", "INTEGER", True),
        ("TIMESTAMP", "TIMESTAMP_NS", True),
        ("VARCHAR", "VARCHAR", True),
        ("BIGINT", "VARCHAR", False),
        ("TIMESTAMP", "DATE", False),
        ("TIMESTAMP", "BIGINT", False),
        ("INTEGER[]", "BIGINT[]", False),
    ],
)
def test_types_of_one_kind_are_alike(left_type: str, right_type: str, *, expected: bool) -> None:
    assert (is_alike(left_type, right_type), is_alike(right_type, left_type)) == (expected, expected)


@pytest.mark.parametrize(
    ("value", "left_sql", "right_sql", "differs"),
    [
        (Value(name="v"), "1", "1", False),
        (Value(name="v"), "NULL", "NULL", False),
        (Value(name="v"), "NULL", "1", True),
        (NEAR, "1.0", "1.5", False),  # 0.5 apart, and that is allowed
        (NEAR, "1.0", "1.625", True),
        (NEAR, "-8.0", "-6.0", False),  # a quarter of the larger magnitude
        (NEAR, "-8.0", "-5.9375", True),
        (NEAR, "6.0", "8.0", False),
        (NEAR, "NULL", "1.0", True),
        (NEAR, "1.0", "NULL", True),
        (NEAR, "NULL", "NULL", False),
        (NEAR, "'nan'::DOUBLE", "'nan'::DOUBLE", False),
        (NEAR, "'nan'::DOUBLE", "1.0", True),
        (NEAR, "'inf'::DOUBLE", "'inf'::DOUBLE", False),
        (NEAR, "'inf'::DOUBLE", "1.0", True),
        (NEAR, "1.0", "'inf'::DOUBLE", True),
        (TIMED, "TIMESTAMP '2026-01-01 00:00:01'", "TIMESTAMP '2026-01-01 00:00:02'", False),
        (TIMED, "TIMESTAMP '2026-01-01 00:00:02.000001'", "TIMESTAMP '2026-01-01 00:00:01'", True),
        (TIMED, "TIMESTAMP '2026-01-01 00:00:02'", "NULL::TIMESTAMP", True),
        (TIMED, "NULL::TIMESTAMP", "NULL::TIMESTAMP", False),
        (TIMED, "'infinity'::TIMESTAMP", "TIMESTAMP '2026-01-01'", True),
        (TIMED, "'infinity'::TIMESTAMP", "'infinity'::TIMESTAMP", False),
    ],
)
def test_values_differ_beyond_what_is_allowed_and_are_equal_up_to_it(
    value: Value, left_sql: str, right_sql: str, *, differs: bool
) -> None:
    with queries.open_duckdb() as connection:
        sides = f"SELECT {left_sql} AS l, {right_sql} AS r"
        query = f"SELECT {value.differs('l', 'r')}, {value.differs('r', 'l')} FROM ({sides})"  # noqa: S608 -- ours
        assert connection.execute(query).fetchone() == (differs, differs)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Value(name="total"), True),
        (Value(name="_n"), False),
        (Value(name="mean__sum"), False),
        (Value(name="window_end", is_implied=True), False),
    ],
)
def test_only_measures_are_shown_and_no_states(value: Value, *, expected: bool) -> None:
    assert value.is_measure is expected


def test_doubles_are_compared_relatively_and_added_up_in_one_order() -> None:
    double = Value(name="v", exact=False, relative=FLOAT_RELATIVE, is_double=True)

    assert [make_default_comparison("v", kind) for kind in ("DOUBLE", "FLOAT", "BIGINT")] == [
        double,
        double,
        Value(name="v"),
    ]
    assert [value.total("x") for value in (double, Value(name="v"))] == ["sum(x ORDER BY x)", "sum(x)"]


def test_counts_and_sums_add_up_over_windows_and_nothing_else_does() -> None:
    pipeline = Pipeline(
        name="sales",
        source=Topic(name="sales", schema="shop string, amount bigint, at timestamp NOT NULL", event_time="at"),
        key=("shop",),
        window=Fixed(hours=1),
        measures={"mean": Avg("amount"), "total": Sum("amount"), "sales": Count()},
    )

    assert additive(pipeline) == ("total", "sales")


def test_columns_of_128_bits_are_hashed_as_text_unless_most_of_their_values_fit_64_bits() -> None:
    types = {
        "short": "DECIMAL(18,2)",
        "long": "DECIMAL(19,18)",
        "fine": "DECIMAL(38,19)",
        "huge": "HUGEINT",
        "list": "INTEGER[]",
        "id": "UUID",
        "plain": "BIGINT",
    }

    assert wide_columns(types) == {"long", "fine", "huge", "list", "id"}
    assert narrow_types(types) == {"long": "DECIMAL(18,18)", "huge": "BIGINT"}


@pytest.mark.parametrize("kind", ["HUGEINT", "DECIMAL(38,0)", "DECIMAL(38,2)"])
@pytest.mark.parametrize(
    ("left_number", "right_number"), [(10**30, 10**30 + 1), (-1, 0), (10**30, 7), (-(10**30), 10**30)]
)
def test_numbers_of_128_bits_differ_whether_64_bits_hold_them_or_not(
    kind: str, left_number: int, right_number: int
) -> None:
    types = {"w": "INTEGER", "n": kind}
    layout = Layout(
        keys=("w",),
        values=(make_default_comparison("n", kind),),
        group="w",
        wide=wide_columns(types),
        narrow=narrow_types(types),
    )
    with queries.open_duckdb() as connection:
        for side, value in (("e", left_number), ("a", right_number)):
            connection.execute(f"CREATE TEMP TABLE {side} AS SELECT 1 AS w, {value}::{kind} AS n")
        assert diff_relations(connection, layout, "e", "a", into="d").changed == 1


@pytest.mark.parametrize(
    ("group", "buckets", "groups", "parts"),
    [("w", None, 1, {0}), ("w", 4, 1, set(range(4))), (None, None, KEY_BUCKETS, {0}), (None, 8, 8, {0})],
)
def test_rows_are_grouped_by_window_or_by_key_buckets(
    group: str | None, buckets: int | None, groups: int, parts: set[int]
) -> None:
    layout = Layout(keys=("w", "k"), values=(), group=group, wide=frozenset(), buckets=buckets)
    with queries.open_duckdb() as connection:
        query = (
            f"SELECT count(DISTINCT {layout.group_sql}), array_agg(DISTINCT {layout.bucket_sql})"  # noqa: S608 -- ours
            " FROM (SELECT 1 AS w, i AS k FROM range(20_000) r(i))"
        )
        group_count, places = connection.execute(query).fetchone() or (0, [])

    assert (group_count, set(places)) == (groups, parts)


def test_rows_are_grouped_by_their_component_if_there_is_one() -> None:
    sessions = Layout(keys=("w", "k"), values=(Value(name="n"),), group="c", wide=frozenset(), component="c")

    assert (LAYOUT.place, LAYOUT.columns, LAYOUT.further) == (("w", "k"), ("w", "k", "n"), ())
    assert (sessions.place, sessions.columns, sessions.further) == (("c", "k"), ("w", "k", "c", "n"), ("c",))
    assert sessions.same_place("l", "r") == ('l."c" IS NOT DISTINCT FROM r."c" AND l."k" IS NOT DISTINCT FROM r."k"')


@pytest.mark.parametrize(
    ("budget", "rows", "limited", "is_spent"),
    [
        (NO_BUDGET, 10**9, False, False),
        (Budget(rows=5), 4, True, False),
        (Budget(rows=5), 5, True, True),
        (Budget(seconds=200), 10**9, True, False),
        (Budget(seconds=10), 0, True, True),
        (Budget(rows=5, seconds=200), 5, True, True),
        (Budget(rows=0), 0, True, True),
    ],
)
def test_a_budget_is_spent_with_its_last_row_or_its_last_second(
    monkeypatch: pytest.MonkeyPatch, budget: Budget, rows: int, *, limited: bool, is_spent: bool
) -> None:
    monkeypatch.setattr("cutover.reconcile.comparison.diff.monotonic", lambda: 110.0)

    assert (budget.is_limited, budget.is_spent(rows, start_time=100.0)) == (limited, is_spent)


def test_keys_that_occur_more_than_once_are_counted_on_each_side_through_all_portions_of_a_budget() -> None:
    with queries.open_duckdb() as connection:
        for side, doubled, value in (("e", 3, "w"), ("a", 20, "-w")):
            table = f"SELECT w, 1 AS k, {value} AS n FROM range(1, 41) r(w)"  # noqa: S608 -- ours
            connection.execute(
                f"CREATE TEMP TABLE {side} AS {table} UNION ALL ({table} ORDER BY w DESC LIMIT {doubled})"
            )
        result = diff_relations(connection, LAYOUT, "e", "a", into="d", budget=Budget(rows=10**9))

    assert (result.duplicates_expected, result.duplicates_actual) == (3, 20)
    assert (result.changed, result.missing, result.extra, result.rows) == (40 + 3, 0, 17, 60)


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        (1, 1, True),
        (1, 2, False),
        (None, None, True),
        (None, 0.0, False),
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (ApproximateFloat(1.0, 0.5), 1.5, True),
        (ApproximateFloat(1.0, 0.5), 1.5625, False),
        (ApproximateFloat(1.0, math.inf), 9e99, True),
        (ApproximateFloat(1.0, math.inf), None, False),
    ],
)
def test_a_value_of_plain_python_is_that_of_a_table_up_to_what_the_order_of_a_sum_may_change(
    expected: Any, actual: Any, *, is_same: bool
) -> None:
    assert layout.same(expected, actual) is is_same


def test_times_of_a_table_are_in_utc_without_a_zone_at_any_depth() -> None:
    noon = datetime(2026, 1, 1, 12)  # noqa: DTZ001 -- as plain Python has it
    zoned = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))

    assert layout.to_plain([zoned, {"at": noon.replace(tzinfo=UTC), "n": 1}, noon]) == [
        noon,
        {"at": noon, "n": 1},
        noon,
    ]

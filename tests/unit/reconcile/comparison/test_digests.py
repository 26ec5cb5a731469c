"""Digests see any change of any row, whatever the order; equal sides need no join."""

import duckdb
import pytest

from cutover.reconcile.comparison.diff import Diff, diff_relations
from cutover.reconcile.comparison.layout import Layout, make_default_comparison, wide_columns

LAYOUT = Layout(
    keys=("w", "k"),
    values=(
        make_default_comparison("n", "BIGINT"),
        make_default_comparison("x", "DOUBLE"),
        make_default_comparison("t", "VARCHAR"),
    ),
    group="w",
    wide=frozenset(),
)
TABLE = """
    SELECT i % 10 AS w, CASE WHEN i % 7 = 0 THEN NULL ELSE 'k' || i END AS k, i AS n, i * 0.1::DOUBLE AS x,
           'é' || i AS t
    FROM range(200) r(i)
"""


def compare_after(change: str = "SELECT 1", layout: Layout = LAYOUT, table: str = TABLE) -> Diff:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE e AS {table}")
        connection.execute("CREATE TEMP TABLE a AS SELECT * FROM e ORDER BY hash(n)")
        connection.execute(change)
        return diff_relations(connection, layout, "e", "a", into="d")


def test_equal_sides_are_not_joined() -> None:
    assert (compare_after().groups, compare_after().joined, compare_after().rows) == (10, 0, 0)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("DELETE FROM a WHERE n = 5", (1, 0, 0)),
        ("INSERT INTO a VALUES (3, 'new', 1, 1, '')", (0, 1, 0)),
        ("INSERT INTO a SELECT * FROM a WHERE n = 5", (0, 1, 0)),
        ("INSERT INTO a SELECT * FROM a WHERE n = 5 UNION ALL SELECT * FROM a WHERE n = 5", (0, 2, 0)),
        ("UPDATE a SET n = n + 1 WHERE n = 5", (0, 0, 1)),
        ("UPDATE a SET n = NULL WHERE n = 5", (0, 0, 1)),
        ("UPDATE a SET t = '' WHERE n = 5", (0, 0, 1)),
        ("UPDATE a SET x = 'nan' WHERE n = 5", (0, 0, 1)),
        ("UPDATE a SET x = 'inf' WHERE n = 5", (0, 0, 1)),
        ("UPDATE a SET w = w + 1 WHERE n = 5", (1, 1, 0)),
        ("UPDATE a SET w = NULL WHERE n = 5", (1, 1, 0)),
        ("UPDATE a SET n = CASE n WHEN 5 THEN 15 WHEN 15 THEN 5 ELSE n END", (0, 0, 2)),
        ("UPDATE a SET t = CASE n WHEN 5 THEN 'é15' WHEN 15 THEN 'é5' ELSE t END", (0, 0, 2)),
    ],
)
def test_a_change_is_found_as_what_it_is(change: str, kinds: tuple[int, int, int]) -> None:
    result = compare_after(change)

    assert (result.missing, result.extra, result.changed) == kinds


@pytest.mark.parametrize(
    ("kind", "value_before", "value_after"),
    [
        ("DECIMAL(38,0)", "0", "-1"),
        ("DECIMAL(38,2)", "0", "-0.01"),
        ("DECIMAL(38,0)", "0", "18446744073709551617"),
        ("HUGEINT", "-1", "0"),
        ("UUID", "'00000000-0000-0000-0000-000000000000'", "'80000000-0000-0001-0000-000000000001'"),
        ("STRUCT(a HUGEINT)", "{'a': 0}", "{'a': -1}"),
        ("HUGEINT[]", "[0]", "[-1]"),
    ],
)
def test_numbers_whose_own_hashes_are_equal_differ(kind: str, value_before: str, value_after: str) -> None:
    types = {"w": "INTEGER", "k": "INTEGER", "n": kind}
    layout = Layout(keys=("w", "k"), values=(make_default_comparison("n", kind),), group="w", wide=wide_columns(types))
    table = f"SELECT 1 AS w, 1 AS k, CAST({value_before} AS {kind}) AS n"

    assert compare_after(f"UPDATE a SET n = CAST({value_after} AS {kind})", layout, table).changed == 1  # noqa: S608 -- a table above


def test_only_windows_that_differ_are_joined() -> None:
    assert compare_after("UPDATE a SET n = 0 WHERE n = 5").joined == 1


def test_a_float_within_tolerance_is_joined_and_found_equal() -> None:
    result = compare_after("UPDATE a SET x = x * (1 + 1e-12) WHERE n = 5")

    assert (result.joined, result.rows) == (1, 0)


def test_minus_zero_is_zero() -> None:
    assert compare_after("UPDATE a SET x = -0.0 WHERE n = 0").rows == 0


def test_two_nan_are_equal() -> None:
    assert compare_after("UPDATE a SET x = 'nan' WHERE n = 5; UPDATE e SET x = 'nan' WHERE n = 5").rows == 0


def test_two_keys_swapped_between_equal_values_are_no_difference() -> None:
    assert (
        compare_after(
            "UPDATE a SET k = k",
            table="SELECT 1 AS w, 'k' || i AS k, 1 AS n, 1.0::DOUBLE AS x, '' AS t FROM range(9) r(i)",
        ).rows
        == 0
    )


def test_without_a_window_keys_fall_into_buckets() -> None:
    bucketed = Layout(keys=("w", "k", "n"), values=LAYOUT.values[1:], group=None, wide=frozenset())

    assert (
        compare_after("UPDATE a SET x = 0.75 WHERE n = 5", bucketed).joined,
        compare_after(layout=bucketed).rows,
    ) == (1, 0)


def test_a_table_of_keys_alone_is_compared() -> None:
    keys_only = Layout(keys=("w", "k"), values=(), group="w", wide=frozenset())

    assert (compare_after("DELETE FROM a WHERE n = 5", keys_only).missing, compare_after(layout=keys_only).rows) == (
        1,
        0,
    )

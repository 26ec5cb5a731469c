"""A diff under a budget: groups in their order, each once, until it is spent."""

import duckdb
import pytest

from cutover.reconcile.comparison.diff import NO_BUDGET, Budget, Diff, diff_relations
from cutover.reconcile.comparison.layout import Layout, make_default_comparison

LAYOUT = Layout(keys=("w", "k"), values=(make_default_comparison("n", "BIGINT"),), group="w", wide=frozenset())
AMPLE = Budget(rows=1_000_000)


def find(groups: int, budget: Budget, *, rows_per_group: int = 3) -> tuple[Diff, list[int]]:
    """Compare groups of rows that all differ; return the result and the groups of the reported rows."""
    with duckdb.connect() as connection:
        for side, value in (("e", "w"), ("a", "-w")):
            connection.execute(
                f"CREATE TEMP TABLE {side} AS SELECT w, k, {value} AS n"  # noqa: S608 -- ours
                f" FROM range(1, {groups + 1}) r(w), range({rows_per_group}) s(k)"
            )
        result = diff_relations(connection, LAYOUT, "e", "a", into="d", budget=budget)
        return result, [int(w) for (w,) in connection.execute("SELECT w FROM d ORDER BY w").fetchall()]


@pytest.mark.parametrize("groups", [0, 1, 2, 40, 100])
def test_a_budget_that_is_never_spent_finds_each_row_of_each_group_once(groups: int) -> None:
    result, rows = find(groups, AMPLE)

    assert rows == [w for w in range(1, groups + 1) for _ in range(3)]
    assert result == find(groups, NO_BUDGET)[0]
    assert (result.joined, result.unfinished) == (groups, 0)


def test_a_budget_that_is_spent_leaves_the_last_groups_alone_and_counts_them() -> None:
    result, rows = find(40, Budget(rows=1))

    assert 0 < result.joined < 40
    assert result.joined + result.unfinished == 40
    assert rows == [w for w in range(1, result.joined + 1) for _ in range(3)]


def test_a_budget_of_no_time_still_compares_some_groups() -> None:
    assert find(40, Budget(seconds=0))[0].rows > 0


@pytest.mark.parametrize(("doubled", "kinds"), [("a", (0, 1)), ("e", (1, 0))])
def test_a_row_that_one_side_alone_has_twice_is_one_too_many(doubled: str, kinds: tuple[int, int]) -> None:
    with duckdb.connect() as connection:
        for side in ("e", "a"):
            connection.execute(f"CREATE TEMP TABLE {side} AS SELECT w, 1 AS k, 7 AS n FROM range(3) r(w)")  # noqa: S608 -- ours
        connection.execute(f"INSERT INTO {doubled} VALUES (1, 1, 7)")  # noqa: S608 -- ours
        result = diff_relations(connection, LAYOUT, "e", "a", into="d")

    assert (result.missing, result.extra, result.changed) == (*kinds, 0)

"""Swapped twins: a swap is accepted only if it is balanced among twins."""

from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Avg, Count, Fixed, Lateness, Pipeline, Sessions, Stddev, Topic
from cutover.definition.windows.window_fn import Interval
from cutover.reconcile.attribution.causes import _select_records_sql
from cutover.reconcile.attribution.log_rows import Place
from cutover.reconcile.attribution.proof import _read_places, find_broken_places
from cutover.reconcile.comparison import sides
from cutover.reconcile.comparison.digests import MEMBERS
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value

ROWS = {  # table -> (offset, id) of its rows, all of one window and event time
    "the stream counted the other twin": ({"stream_twins": [(3, 1)], "batch_twins": [(5, 1)]}, [3, 5]),
    "the twin that batch counts is late": ({"late_rows": [(3, 1)], "batch_twins": [(5, 1)]}, [5]),
    "the stream counted both": ({"batch_twins": [(5, 1)]}, []),
    "the stream counted both, and another record is late": ({"late_rows": [(3, 2)], "batch_twins": [(5, 1)]}, []),
    "the stream counted none": ({"stream_twins": [(3, 1)]}, []),
    "the stream counted none, and batch another once": ({"stream_twins": [(3, 1)], "batch_twins": [(5, 2)]}, []),
}


@pytest.mark.parametrize("case", ROWS)
def test_swaps_are_accepted_only_among_twins(case: str) -> None:
    given_rows, expected = ROWS[case]
    kinds = "window_start BIGINT, __partition INTEGER, __offset BIGINT, __event BIGINT, __id BIGINT"
    with duckdb.connect() as connection:
        for name in ("stream_twins", "batch_twins", "late_rows", "left_out"):
            connection.execute(f"CREATE TEMP TABLE {name} ({kinds})")
            for offset, number in given_rows.get(name, ()):
                connection.execute(f"INSERT INTO {name} VALUES (0, 0, {offset}, 7, {number})")  # noqa: S608 -- ours
        sides.make_swapped(connection)
        swapped_offsets = connection.execute("SELECT __offset FROM swapped ORDER BY 1").fetchall()

    assert [offset for (offset,) in swapped_offsets] == expected


def test_a_late_record_that_is_a_duplicate_in_batch_explains_nothing() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TEMP TABLE {SharedTable.LEDGER} AS SELECT * FROM (VALUES ('late', 0, 3, 0), ('late', 0, 4, 0),"  # noqa: S608 -- ours
            " ('late', 1, 3, 0), ('malformed', 0, 9, 0)) t(_class, _partition, _offset, window_start)"
        )
        connection.execute(
            f"CREATE TEMP TABLE {sides.LEFT_OUT} AS SELECT 0 AS __partition, 3 AS __offset, 0 AS window_start"
        )

        def read(*, has_twin_tables: bool) -> set[tuple[int, int]]:
            query = _select_records_sql(Mock(connection=connection, has_twin_tables=has_twin_tables), "late")
            return set(connection.execute(query).fetchall())

        assert read(has_twin_tables=True) == {(0, 4), (1, 3)}
        assert read(has_twin_tables=False) == {(0, 3), (0, 4), (1, 3)}


def test_states_of_batch_that_do_not_give_its_measures_are_not_taken_for_the_logs() -> None:
    pipeline = Pipeline(
        name="p",
        source=Topic(name="p", schema="id bigint NOT NULL, k string, v int, at timestamp", event_time="at"),
        key=("k",),
        window=Fixed(hours=1),
        measures={"n": Count(), "mean": Avg("v"), "spread": Stddev("v")},
        lateness=Lateness(out_of_orderness="0 seconds", allowed="0 seconds"),
    )
    values = tuple(Value(name=name) for name in ("n", "mean", "spread", "mean__sum", "mean__count"))
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TEMP TABLE batch_side AS SELECT * FROM (VALUES (0, 'a', 2, 3.0::DOUBLE, sqrt(2.0), 6, 2, 2, 6, 20),"
            " (0, 'no count', 2, 3.0, sqrt(2.0), 6, NULL, 2, 6, 20),"
            " (0, 'other sum', 2, 3.0, sqrt(2.0), 7, 2, 2, 6, 20),"
            " (0, 'no squares', 2, 3.0, sqrt(2.0), 6, 2, 2, 6, NULL)) t(window_start, k, n, mean, spread,"
            " mean__sum, mean__count, spread__count, spread__sum, spread__squares)"
        )
        connection.execute(
            "CREATE TEMP TABLE claimed_places AS"
            " SELECT window_start, k, row_number() OVER () AS __place FROM batch_side"
        )
        sides = Mock(
            connection=connection,
            layout=Layout(keys=("window_start", "k"), values=values, group=None, wide=frozenset()),
        )

        broken_places = find_broken_places(sides, pipeline)

    assert broken_places == {2, 3, 4}


def test_sessions_of_a_place_are_those_of_its_whole_key() -> None:
    pipeline = Pipeline(
        name="p",
        source=Topic(name="p", schema="a string, b string, at timestamp", event_time="at"),
        key=("a", "b"),
        window=Sessions(gap="1 second"),
        measures={"n": Count()},
        lateness=Lateness(out_of_orderness="0 seconds", allowed="0 seconds"),
    )
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TEMP TABLE claimed_places AS SELECT make_timestamptz(0) AS __component, *"
            " FROM (VALUES ('x', 'y', 7), ('x', 'q', 8)) t(a, b, __place)"
        )
        connection.execute(
            f"CREATE TEMP TABLE {MEMBERS} AS SELECT make_timestamptz(0) AS window_start,"  # noqa: S608 -- ours
            " make_timestamptz(ends) AS window_end, a, b"
            " FROM (VALUES (5, 'x', 'y'), (6, 'x', 'z'), (7, 'z', 'q')) t(ends, a, b)"
        )
        layout = Layout(
            keys=("window_start", "a", "b"), values=(), group=None, wide=frozenset(), component="__component"
        )

        places = _read_places(Mock(connection=connection, layout=layout), pipeline)

    assert places == {7: Place(Interval(0, 5), ("x", "y"))}

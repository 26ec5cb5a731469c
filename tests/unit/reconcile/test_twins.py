"""Which of two twins counts: a swap is believed as far as it adds up among twins."""

import duckdb
import pytest

from cutover.reconcile.comparison import duplicates

ROWS = {  # table -> (offset, id) of its rows, all of one window and event time
    "the stream counted the other twin": ({"stream_twins": [(3, 1)], "batch_twins": [(5, 1)]}, [3, 5]),
    "the twin that batch counts is late": ({"late_rows": [(3, 1)], "batch_twins": [(5, 1)]}, [5]),
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
            connection.execute(f"CREATE TEMP TABLE {name} ({kinds})")
            for offset, number in given_rows.get(name, ()):
                connection.execute(f"INSERT INTO {name} VALUES (0, 0, {offset}, 7, {number})")  # noqa: S608 -- ours
        duplicates.make_swapped(connection)
        found = connection.execute("SELECT __offset FROM swapped ORDER BY 1").fetchall()

    assert [offset for (offset,) in found] == expected

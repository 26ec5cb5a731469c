"""Where rows may be missing: windows wholly inside, sessions that touch."""

import duckdb
import pytest

from cutover.definition import Fixed, Sessions
from cutover.definition.windows.window_fn import Interval, WindowFn
from cutover.lake.serving.spans import is_affected, is_affected_sql

SPAN = (10, 20)


@pytest.mark.parametrize(
    ("window", "one", "expected"),
    [
        (Fixed(minutes=1), Interval(10, 20), True),
        (Fixed(minutes=1), Interval(9, 20), False),
        (Fixed(minutes=1), Interval(15, 21), False),
        (Sessions("1 minute"), Interval(20, 30), True),
        (Sessions("1 minute"), Interval(0, 10), True),
        (Sessions("1 minute"), Interval(0, 30), True),
        (Sessions("1 minute"), Interval(21, 30), False),
        (Sessions("1 minute"), Interval(0, 9), False),
    ],
)
def test_a_stretch_stands_for_a_window_in_python_and_in_sql(window: WindowFn, one: Interval, expected: bool) -> None:
    times = f"SELECT make_timestamptz({one.start}) AS window_start, make_timestamptz({one.end}) AS window_end"
    query = f"SELECT {is_affected_sql(window, [SPAN])} FROM ({times})"  # noqa: S608 -- numbers of this file

    assert is_affected(window, one, [SPAN]) is expected
    assert duckdb.execute(query).fetchall() == [(expected,)]

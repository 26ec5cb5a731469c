"""Spans in which rows may be missing: windows entirely inside, and touching sessions."""

import duckdb
import pytest

from cutover.definition import Fixed, Sessions
from cutover.definition.windows.window_fn import Interval, WindowFn
from cutover.lake.serving.views import is_affected, is_affected_sql

SPAN = (10, 20)


@pytest.mark.parametrize(
    ("window", "interval", "expected"),
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
def test_a_span_affects_the_same_windows_in_python_and_sql(
    window: WindowFn, interval: Interval, expected: bool
) -> None:
    times = f"SELECT make_timestamptz({interval.start}) AS window_start, make_timestamptz({interval.end}) AS window_end"
    query = f"SELECT {is_affected_sql(window, [SPAN])} FROM ({times})"  # noqa: S608 -- numbers of this file

    assert is_affected(window, interval, [SPAN]) is expected
    assert duckdb.execute(query).fetchall() == [(expected,)]

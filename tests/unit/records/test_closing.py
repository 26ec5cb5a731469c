"""Closing of windows to the microsecond, and of sessions with their inclusive gap."""

from dataclasses import replace

import duckdb
import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Sessions, Topic
from cutover.definition.windows.kinds import Window, can_merge
from cutover.definition.windows.window_fn import Interval
from cutover.records.watermark import compute_closing_watermark, compute_late_margin, find_closed_end, is_closed_sql

MINUTE = 60_000_000
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"n": Count()},
    lateness=Lateness(allowed="5 minutes"),
)
SESSIONS = replace(PIPELINE, window=Sessions("10 minutes"))


@pytest.mark.parametrize(
    ("window", "closing_time"),
    [(Fixed(minutes=10), 10 * MINUTE + 5 * MINUTE), (Sessions("10 minutes"), 25 * MINUTE + 1)],
)
def test_a_window_closes_exactly_at_its_closing_watermark(window: Window, closing_time: int) -> None:
    pipeline = replace(PIPELINE, window=window)
    end = 10 * MINUTE

    assert compute_closing_watermark(window, pipeline.lateness, end) == closing_time
    assert (
        find_closed_end(pipeline, closing_time),
        find_closed_end(pipeline, closing_time - 1),
        find_closed_end(pipeline, None),
    ) == (
        end,
        end - 1,
        None,
    )


def test_no_row_that_is_in_time_touches_a_session_that_is_closed() -> None:
    gap = 10 * MINUTE
    watermark = compute_closing_watermark(SESSIONS.window, SESSIONS.lateness, gap)
    rows = [gap - 1, gap, gap + 1]

    in_time = [at for at in rows if at + gap + compute_late_margin(SESSIONS) > watermark]

    assert in_time == [gap + 1]
    assert [can_merge(Interval(0, gap), Interval(at, at + gap)) for at in rows] == [True, True, False]


def test_sql_closes_the_same_windows() -> None:
    query = "SELECT {} FROM (SELECT make_timestamptz({}) AS window_end)"  # a bound and a time of this file
    ends = (10 * MINUTE, 10 * MINUTE + 1)

    closed = is_closed_sql(SESSIONS, 25 * MINUTE + 1)
    results = [duckdb.execute(query.format(closed, end)).fetchall()[0][0] for end in ends]

    assert results == [True, False]
    assert is_closed_sql(SESSIONS, None) == "false"


def test_sessions_that_meet_are_one_from_either_side() -> None:
    early, late = Interval(0, 10), Interval(10, 20)

    assert (can_merge(early, late), can_merge(late, early)) == (True, True)
    assert (can_merge(early, Interval(11, 21)), can_merge(Interval(11, 21), early)) == (False, False)


def test_a_range_for_sessions_contains_touching_rows() -> None:
    gap = 10 * MINUTE
    window = Sessions("10 minutes")

    assert (window.last_end_before(100), window.start_after(100)) == (99, 101)
    assert window.start_after(window.last_end_before(100)) == 100
    assert window.end_of_starts(100) == 100 + gap + 1
    assert window.event_range(Interval(100, 500)) == Interval(100 - gap, 501)
    assert (window.reach, window.closes_after, window.late_after) == (gap, gap + 1, 1)

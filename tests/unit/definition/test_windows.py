"""Windows in event time: alignment, days with a clock change, before 1970, touching sessions, invalid windows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Daily, Fixed, Global, Monthly, Pipeline, Sessions, Sql, Topic
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import (
    AlignedWindowFn,
    Interval,
    WindowFn,
    list_windows,
    merge_intervals,
    select_first_window,
    select_last_window,
)
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros

SECOND = 1_000_000
HOUR = 3600 * SECOND
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, k string", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def day(zone: str, text: str, offset: str = "0 hours") -> tuple[str, str]:
    """Return the start and end, in UTC, of the day that holds a time."""
    (interval,) = Daily(zone=zone, offset=offset).assign_windows(micros(text))
    start, end = (datetime.fromtimestamp(edge / SECOND, UTC).strftime("%Y-%m-%dT%H:%MZ") for edge in interval)
    return start, end


@pytest.mark.parametrize(
    ("zone", "offset", "text", "expected"),
    [
        ("America/Sao_Paulo", "0 hours", "2018-11-04T12:00Z", ("2018-11-04T03:00Z", "2018-11-05T02:00Z")),
        ("Asia/Beirut", "0 hours", "2022-03-27T12:00Z", ("2022-03-26T22:00Z", "2022-03-27T21:00Z")),
        # From 23:30 to 00:30: midnight by the clock before the change is 01:00 behind it.
        ("America/Toronto", "0 hours", "1919-03-31T12:00Z", ("1919-03-31T05:00Z", "1919-04-01T04:00Z")),
        ("Europe/Berlin", "150 minutes", "2024-03-31T12:00Z", ("2024-03-31T01:30Z", "2024-04-01T00:30Z")),
    ],
)
def test_a_day_whose_beginning_the_clock_skips_begins_by_the_clock_before_the_change(
    zone: str, offset: str, text: str, expected: tuple[str, str]
) -> None:
    assert day(zone, text, offset) == expected


def test_fixed_window_begins_at_its_offset() -> None:
    assert Fixed(hours=1, offset="15 minutes").assign_windows(0) == (Interval(-45 * 60 * SECOND, 15 * 60 * SECOND),)


def test_the_shortest_window_holds_one_moment() -> None:
    assert SlidingWindows(size=1, every=1).assign_windows(5) == (Interval(5, 6),)


def test_sliding_windows_begin_at_their_offset() -> None:
    window = SlidingWindows(size=10, every=4, offset=3)

    assert window.assign_windows(11) == (Interval(3, 13), Interval(7, 17), Interval(11, 21))
    assert window.assign_windows(13) == (Interval(7, 17), Interval(11, 21))


@pytest.mark.parametrize(("event", "start"), [(-1, -10), (-10, -10), (-11, -20), (0, 0), (9, 0)])
def test_windows_before_1970_are_counted_downwards(event: int, start: int) -> None:
    assert SlidingWindows(size=10, every=10).assign_windows(event) == (Interval(start, start + 10),)


@given(
    event=st.integers(-(10**15), 10**15),
    step=st.integers(1, 10**6),
    more=st.integers(0, 10**6),
    offset=st.integers(0, 10**6),
)
def test_sliding_windows_are_all_that_hold_the_event(event: int, step: int, more: int, offset: int) -> None:
    window = SlidingWindows(size=step + more % (60 * step), every=step, offset=offset % step)
    intervals = window.assign_windows(event)

    assert all(interval.start <= event < interval.end for interval in intervals)
    assert all((interval.start - window.offset) % step == 0 for interval in intervals)
    assert intervals[0].start - step + window.size <= event < intervals[-1].start + step


@pytest.mark.parametrize(
    ("zone", "event", "start", "end"),
    [
        ("Europe/Berlin", "2024-03-31T12:00:00Z", "2024-03-30T23:00Z", "2024-03-31T22:00Z"),  # 23 hours
        ("Europe/Berlin", "2024-10-27T12:00:00Z", "2024-10-26T22:00Z", "2024-10-27T23:00Z"),  # 25 hours
        ("Europe/Berlin", "2024-03-30T22:59:59Z", "2024-03-29T23:00Z", "2024-03-30T23:00Z"),
        ("Europe/Berlin", "2024-03-30T23:00:00Z", "2024-03-30T23:00Z", "2024-03-31T22:00Z"),
        ("America/New_York", "1969-10-26T12:00:00Z", "1969-10-26T04:00Z", "1969-10-27T05:00Z"),  # 25 hours, before 1970
        ("America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),  # no midnight
        ("America/Havana", "2024-11-03T12:00:00Z", "2024-11-03T04:00Z", "2024-11-04T05:00Z"),  # midnight twice
        ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),  # no 30 December
        ("Asia/Kolkata", "2024-01-01T18:30:00Z", "2024-01-01T18:30Z", "2024-01-02T18:30Z"),
        ("UTC", "1969-12-31T23:59:59Z", "1969-12-31T00:00Z", "1970-01-01T00:00Z"),
    ],
)
def test_day_is_as_long_as_its_wall_clock_day(zone: str, event: str, start: str, end: str) -> None:
    assert day(zone, event) == (start, end)


def test_day_may_begin_later_than_midnight() -> None:
    assert day("Europe/Berlin", "2024-03-31T12:00:00Z", "6 hours") == ("2024-03-31T04:00Z", "2024-04-01T04:00Z")
    assert day("Europe/Berlin", "2024-03-31T03:59:59Z", "6 hours") == ("2024-03-30T05:00Z", "2024-03-31T04:00Z")


def test_day_that_begins_at_a_skipped_time_is_whole() -> None:
    assert day("Europe/Berlin", "2024-03-31T01:30:00Z", "150 minutes") == ("2024-03-31T01:30Z", "2024-04-01T00:30Z")


@given(
    zone=st.sampled_from(["Europe/Berlin", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Monrovia"]),
    event=st.integers(-(4 * 10**15), 4 * 10**15),
    offset=st.integers(0, 23),
)
def test_every_moment_is_in_exactly_one_of_consecutive_days(zone: str, event: int, offset: int) -> None:
    window = Daily(zone=zone, offset=f"{offset} hours")
    (interval,) = window.assign_windows(event)

    assert interval.start <= event < interval.end
    assert window.assign_windows(interval.end)[0].start == interval.end
    assert window.assign_windows(interval.start) == (interval,)


MID_MONTH = Monthly(zone="UTC", first_day=15, offset="6 hours")


@pytest.mark.parametrize(
    ("event", "window", "expected"),
    [
        ("2024-03-31T21:59:59Z", Monthly(zone="Europe/Berlin"), ("2024-02-29T23:00Z", "2024-03-31T22:00Z")),
        ("2024-03-31T22:00:00Z", Monthly(zone="Europe/Berlin"), ("2024-03-31T22:00Z", "2024-04-30T22:00Z")),
        (
            "2023-12-15T05:59:00Z",
            Monthly(zone="UTC", first_day=15, offset="6 hours"),
            ("2023-11-15T06:00Z", "2023-12-15T06:00Z"),
        ),
        ("2024-12-31T23:00:00Z", Monthly(zone="Europe/Berlin"), ("2024-12-31T23:00Z", "2025-01-31T23:00Z")),
    ],
)
def test_month_of_a_zone_is_as_long_as_its_clock_says(event: str, window: Monthly, expected: tuple[str, str]) -> None:
    (interval,) = window.assign_windows(micros(event))

    assert tuple(from_micros(edge).strftime("%Y-%m-%dT%H:%MZ") for edge in interval) == expected


@given(event=st.integers(-(4 * 10**15), 4 * 10**15), day=st.integers(1, 28), hour=st.integers(0, 23))
def test_a_month_is_never_longer_than_ids_are_remembered_for_it(event: int, day: int, hour: int) -> None:
    window = Monthly(zone="Pacific/Kwajalein", first_day=day, offset=f"{hour} hours")
    (interval,) = window.assign_windows(event)

    assert interval.start <= event < interval.end <= event + window.reach


def test_session_of_one_row_ends_a_gap_behind_it() -> None:
    assert Sessions("1 minute").assign_windows(-5) == (Interval(-5, 60 * SECOND - 5),)


def test_sessions_that_touch_are_one() -> None:
    assert merge_intervals([Interval(10, 20), Interval(0, 10), Interval(21, 31)]) == (Interval(0, 20), Interval(21, 31))


def test_session_within_another_changes_nothing() -> None:
    assert merge_intervals([Interval(0, 30), Interval(5, 15)]) == (Interval(0, 30),)


@given(events=st.lists(st.integers(-200, 200), max_size=12), order=st.randoms(use_true_random=False))
def test_sessions_merge_in_any_order_and_grouping(events: list[int], order: Random) -> None:
    alone = [Interval(event, event + 20) for event in events]
    expected = merge_intervals(alone)
    order.shuffle(alone)
    half = len(alone) // 2

    assert merge_intervals([*merge_intervals(alone[:half]), *merge_intervals(alone[half:])]) == expected


def test_global_window_holds_everything() -> None:
    assert [micros("1000-01-01T00:00:00Z"), micros("9000-01-01T00:00:00Z")] == list(
        Global().assign_windows(-(10**15))[0]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sessions("0 minutes"), "expected more than zero, got `0 minutes`"),
        (lambda: Sessions("a while"), r"`window\.gap`: expected a whole number and a unit"),
        (
            lambda: Daily(zone="Europe/Berlinn"),
            "`Europe/Berlin` or `UTC`, got `Europe/Berlinn`",
        ),
        (lambda: Daily(zone="../etc/passwd"), "expected a name such as `Europe/Berlin`"),
        (lambda: Daily(zone=""), "expected a name such as `Europe/Berlin`"),
        (lambda: Daily(zone="posix/Europe/Berlin"), "got `posix/Europe/Berlin`"),
        (lambda: Daily(zone="localtime"), "got `localtime`"),
        (lambda: Daily(zone="EST"), "got `EST`"),
        (lambda: Daily(zone=None), "got `None`"),  # type: ignore[arg-type]  # as a definition may have it
        (lambda: Monthly(zone="UTC", first_day=29), "first_day: expected a whole number, 1 to 28, got 29"),
        (lambda: Monthly(zone="UTC", first_day=1.0), "1 to 28, got 1.0"),  # type: ignore[arg-type]  # the same
        (lambda: Monthly(zone="UTC", first_day="1"), "1 to 28, got '1'"),  # type: ignore[arg-type]  # the same
        (lambda: Monthly(zone="UTC", first_day=True), "1 to 28, got True"),
        (lambda: Monthly(zone="Mars/Base"), "Window `Monthly`: zone: expected a name"),
        (lambda: Daily(zone="UTC", offset="24 hours"), "expected less than a day, got `24 hours`"),
        (lambda: Fixed(hours=1, offset="1 hour"), "expected 0 <= offset < every"),
        (lambda: SlidingWindows(size=10, every=5, offset=-1), "expected 0 <= offset < every"),
    ],
)
def test_impossible_window_is_rejected(make: Callable[[], WindowFn], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_batch_sql_with_sessions_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"batch: expected SameDefinition\(\) with Sessions"):
        check_definition(replace(PIPELINE, window=Sessions("1 minute"), batch=Sql("own.sql")))


def test_non_window_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"window: expected one of Fixed\(hours=1\), .* got 'hourly'"):
        check_definition(replace(PIPELINE, window="hourly"))  # type: ignore[arg-type]  # a definition file may hold it


ALIGNED: tuple[AlignedWindowFn, ...] = (
    Fixed(hours=1, offset="15 minutes"),
    SlidingWindows(size=10, every=4, offset=3),
    Daily(zone="Europe/Berlin"),
    Daily(zone="Pacific/Apia", offset="6 hours"),
    Monthly(zone="Europe/Berlin"),
    Monthly(zone="Pacific/Kwajalein", first_day=21, offset="6 hours"),  # left out 21 August 1993
)


@pytest.mark.parametrize("window", ALIGNED)
@given(event=st.integers(-(10**15), 2 * 10**15))
def test_windows_are_consecutive_without_a_gap(window: AlignedWindowFn, event: int) -> None:
    intervals = window.assign_windows(event)

    assert window.min_windows <= len(intervals) <= window.max_windows
    assert (select_first_window(window, event), select_last_window(window, event)) == (intervals[0], intervals[-1])
    assert select_last_window(window, intervals[-1].start) == intervals[-1]
    following = select_last_window(window, window.next_start(intervals[-1].start))
    assert intervals[-1].start < event + 1 <= following.start <= intervals[-1].end
    assert select_last_window(window, following.start - 1) == intervals[-1]
    assert select_first_window(window, intervals[-1].end - 1).end <= intervals[-1].end


def test_no_window_follows_the_global_one() -> None:
    assert Global().next_start(Global().assign_windows(0)[0].start) == Global().assign_windows(0)[0].end


def test_every_parameter_of_a_window_changes_the_result_fingerprint() -> None:
    windows: list[AlignedWindowFn] = [
        Fixed(hours=1),
        Fixed(hours=1, offset="15 minutes"),
        Fixed(days=1),
        Daily(zone="UTC"),
        Daily(zone="Europe/Berlin"),
        Daily(zone="Europe/Berlin", offset="6 hours"),
        Monthly(zone="Europe/Berlin"),
        Monthly(zone="Europe/Berlin", first_day=2),
        Monthly(zone="Europe/Berlin", offset="6 hours"),
        Monthly(zone="UTC"),
        Global(),
    ]

    assert len({result_fingerprint(replace(PIPELINE, window=window)) for window in windows}) == len(windows)
    equal_windows = {Daily(zone="UTC", offset="6 hours"), Daily(zone="UTC", offset="360 minutes")}
    assert len({result_fingerprint(replace(PIPELINE, window=window)) for window in equal_windows}) == 1


def test_fingerprint_of_a_fixed_window_is_stable() -> None:
    assert result_fingerprint(PIPELINE) == "a7b7c99d2806"


@pytest.mark.parametrize(
    ("window", "max_windows", "min_windows", "length"),
    [
        (SlidingWindows(size=10, every=10), 1, 1, None),
        (SlidingWindows(size=10, every=5), 2, 2, 5),
        (SlidingWindows(size=10, every=4), 3, 2, 2),
        (SlidingWindows(size=10, every=9), 2, 1, 1),
    ],
)
def test_a_row_belongs_to_a_known_number_of_windows_and_one_slice(
    window: SlidingWindows, max_windows: int, min_windows: int, length: int | None
) -> None:
    assert (window.max_windows, window.min_windows, window.slice_micros, window.reach) == (
        max_windows,
        min_windows,
        length,
        10,
    )


def test_parts_of_a_size_add_up() -> None:
    sliding_windows = Fixed(days=1, hours=2, minutes=30, seconds=4)

    assert sliding_windows.size == sliding_windows.every == (26 * 3600 + 30 * 60 + 4) * SECOND


def test_the_longest_window_is_36500_days() -> None:
    assert Fixed(days=36_500).size == 36_500 * 24 * HOUR
    with pytest.raises(DefinitionError, match="expected a size of at most 36500 days, got 36501"):
        Fixed(days=36_501)


@pytest.mark.parametrize(("size", "step"), [(0, 0), (10, 0), (10, 11), (0, 1), (-1, -1)])
def test_windows_with_gaps_or_without_a_step_are_rejected(size: int, step: int) -> None:
    with pytest.raises(DefinitionError, match=f"0 < every <= size, got size {size} us, every {step} us"):
        SlidingWindows(size=size, every=step)


@pytest.mark.parametrize(
    ("zone", "offset", "day_date", "hours"),
    [
        ("Europe/Berlin", "0 hours", date(2024, 3, 31), 23),
        ("Europe/Berlin", "6 hours", date(2024, 3, 30), 23),
        ("Europe/Berlin", "6 hours", date(2024, 3, 31), 24),
        ("Pacific/Apia", "0 hours", date(2011, 12, 30), 0),
    ],
)
def test_a_date_is_as_long_as_its_zone_has_it(zone: str, offset: str, day_date: date, hours: int) -> None:
    interval = Daily(zone=zone, offset=offset).day_interval(day_date)

    assert interval.end - interval.start == hours * HOUR


def test_bounds_of_sliding_windows_around_a_time() -> None:
    window = SlidingWindows(size=10, every=5)

    assert [window.last_end_before(time) for time in (10, 11, 15, 16)] == [15, 20, 20, 25]
    assert [window.start_after(end) for end in (9, 10, 14, 15)] == [0, 5, 5, 10]
    assert [window.end_of_starts(event) for event in (9, 10, 14, 15)] == [10, 15, 15, 20]
    assert window.event_range(Interval(5, 15)) == Interval(5, 15)


def test_nothing_starts_after_the_global_window() -> None:
    (interval,) = Global().assign_windows(0)

    assert (Global().start_after(interval.end - 1), Global().start_after(interval.end)) == (
        interval.start,
        interval.end,
    )


def test_windows_after_a_time_are_listed_up_to_another() -> None:
    window = SlidingWindows(size=10, every=5)

    assert list(list_windows(window, 10, 20)) == [Interval(5, 15), Interval(10, 20)]
    assert list(list_windows(window, 9, 14)) == [Interval(0, 10)]
    assert list(list_windows(window, 9, 9)) == []

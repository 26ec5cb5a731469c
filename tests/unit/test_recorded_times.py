"""Times of hosts whose clocks disagree, compared with the order of their records."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.recorded_times import (
    FOREVER,
    RecordAge,
    bound_age,
    find_earliest_times,
    find_latest_times,
    make_monotonic,
    measure_lag,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YEARS = 3 * 365 * 24
Hours = list[int]


def times(hours: Hours) -> list[datetime]:
    return [NOON + hour * HOUR for hour in hours]


@pytest.mark.parametrize(
    ("recorded_hours", "settled"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0, 1, 1, 2], [0, 1, 1, 2], id="one clock"),
        pytest.param([0, 1, 2, -46], [0, 1, 2, 2], id="the newest two days back"),
        pytest.param([0, -48, 1, 2], [0, 0, 1, 2], id="one two days back"),
        pytest.param([0, YEARS, 1, 2], [0, 0, 1, 2], id="one years ahead"),
        pytest.param([YEARS, 0, 1], [0, 0, 1], id="the first years ahead"),
        pytest.param([0, -48], [0, 0], id="of two as large the first"),
        pytest.param([0, YEARS, 1], [0, 0, 1], id="of two as large the one that spans less time"),
        pytest.param([0, -48, -47], [-48, -48, -47], id="a clock that was set right"),
        pytest.param([0, 1, YEARS], [0, 1, YEARS], id="the newest years ahead"),
    ],
)
def test_times_are_settled_by_the_largest_consistent_order(recorded_hours: Hours, settled: Hours) -> None:
    assert make_monotonic(times(recorded_hours)) == times(settled)


@given(st.lists(st.integers(-YEARS, YEARS)))
def test_settled_times_never_go_back_and_are_among_the_recorded_ones(hours: Hours) -> None:
    settled = make_monotonic(times(hours))

    assert settled == sorted(settled)
    assert set(settled) <= set(times(hours))
    assert make_monotonic(settled) == settled


@given(st.lists(st.integers(0, 1_000), min_size=5).map(sorted), st.data())
def test_one_wrong_clock_changes_only_its_own_time(hours: Hours, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, len(hours) - 1))
    off = data.draw(st.sampled_from([-YEARS, YEARS]))
    recorded_hours = [hour + off * (number == wrong) for number, hour in enumerate(hours)]

    settled = make_monotonic(times(recorded_hours))

    unaffected = [number for number in range(len(hours)) if number != wrong]
    assert [settled[number] for number in unaffected] == [times(hours)[number] for number in unaffected]


@pytest.mark.parametrize(
    ("recorded_hours", "latest"),
    [
        pytest.param([], [], id="none"),
        pytest.param([-3, -2, -1], [-3, -2, -1], id="one clock"),
        pytest.param([-3, -48, -1], [-3, -3, -1], id="a clock behind"),
        pytest.param([-3, YEARS, -1], [-3, -1, -1], id="years ahead: before the next one"),
        pytest.param([-3, YEARS], [-3, 0], id="years ahead: by now"),
    ],
)
def test_a_record_is_no_newer_than_the_next_one(recorded_hours: Hours, latest: Hours) -> None:
    assert find_latest_times(times(recorded_hours), NOON) == times(latest)


@given(st.lists(st.tuples(st.integers(-99, 0), st.integers(-YEARS, YEARS))))
def test_no_wrong_clock_makes_a_record_older_than_earlier_ones(drawn_offsets: list[tuple[int, int]]) -> None:
    true = sorted(hour for hour, _ in drawn_offsets)
    recorded_hours = [
        hour + (off if number % 2 else 0)
        for number, (hour, (_, off)) in enumerate(zip(true, drawn_offsets, strict=True))
    ]

    latest = find_latest_times(times(recorded_hours), NOON)

    assert all(at <= NOON for at in latest)
    assert latest == sorted(latest)
    for number in range(0, len(true), 2):
        assert latest[number] >= times(true)[number]


@pytest.mark.parametrize(
    ("recorded_hour", "predecessors", "expected"),
    [
        pytest.param(-2, [], RecordAge(not_before=NOON - 2 * HOUR), id="alone"),
        pytest.param(-2, [-3], RecordAge(not_before=NOON - 2 * HOUR), id="after what came before it"),
        pytest.param(
            -50, [-9, -2], RecordAge(not_before=NOON - 2 * HOUR, uncertainty=2 * DAY), id="a clock two days back"
        ),
        pytest.param(YEARS, [-9, 5], RecordAge(not_before=NOON - 9 * HOUR, uncertainty=FOREVER), id="years ahead"),
        pytest.param(1, [-9, 5], RecordAge(not_before=NOON), id="an hour ahead means now"),
    ],
)
def test_a_record_is_no_older_than_its_predecessors(
    recorded_hour: int, predecessors: Hours, expected: RecordAge
) -> None:
    assert bound_age(NOON + recorded_hour * HOUR, times(predecessors), NOON) == expected


@pytest.mark.parametrize(
    ("recorded_hours", "inputs", "lag"),
    [
        pytest.param([], [], 0, id="no record"),
        pytest.param([-3, -2], [[-4], [-3]], 0, id="one clock"),
        pytest.param([-4, -1], [[-3], []], 1, id="an hour behind, shown by an earlier record alone"),
        pytest.param([-9, -1], [[-3], [-2]], 1, id="no more than an hour"),
    ],
)
def test_a_clock_that_was_behind_the_inputs_of_any_record_is_behind(
    recorded_hours: Hours, inputs: list[Hours], lag: int
) -> None:
    measured = measure_lag(times(recorded_hours), [times(hours) for hours in inputs], tolerated=HOUR / 30)

    assert measured == lag * HOUR
    record_age = bound_age(NOON - HOUR, times([-2]), NOON, lag=measured)
    assert record_age == RecordAge(not_before=NOON - HOUR, uncertainty=lag * HOUR)


def test_a_lag_that_is_tolerated_does_not_count() -> None:
    assert measure_lag(times([-4]), [times([-3])], tolerated=HOUR) == 0 * HOUR


def test_age_of_a_future_record_without_predecessors_is_unknown() -> None:
    record_age = bound_age(NOON + 2 * HOUR, [], NOON)

    assert NOON - record_age.not_before > 50 * 365 * DAY
    assert record_age.uncertainty == FOREVER


@pytest.mark.parametrize(
    ("recorded_hours", "earliest"),
    [
        pytest.param([], [], id="none"),
        pytest.param([-3, -2, -1], [-3, -2, -1], id="one clock"),
        pytest.param([-3, -48, -1], [-48, -48, -1], id="no newer than one recorded after it"),
        pytest.param([-3, YEARS, -1], [-3, -3, -1], id="years ahead: after the one before"),
        pytest.param([-3, 48], [-3, -3], id="the newest two days ahead"),
        pytest.param([-3, 1], [-3, 0], id="an hour ahead means now"),
        pytest.param([YEARS, -1], [None, -1], id="nothing before it"),
        pytest.param([None, -3, None], [None, -3, -3], id="no time was recorded"),
    ],
)
def test_a_record_is_no_older_than_the_previous_one(
    recorded_hours: list[int | None], earliest: list[int | None]
) -> None:
    earliest_times = find_earliest_times(
        [None if hour is None else NOON + hour * HOUR for hour in recorded_hours], NOON
    )

    assert earliest_times == [None if hour is None else NOON + hour * HOUR for hour in earliest]


@pytest.mark.parametrize(
    ("inputs", "earliest"),
    [
        pytest.param([[-9], [-5]], [-9, -2], id="before it"),
        pytest.param([[-9], [-1]], [-9, -1], id="of a clock an hour ahead"),
        pytest.param([[-9], [0]], [-9, -2], id="of a clock further ahead"),
        pytest.param([[-9, -4], []], [-4, -2], id="the newest input counts"),
        pytest.param([[-9, -1], []], [-9, -2], id="an input dated after the next record does not count"),
        pytest.param([[48], []], [None, -2], id="an input of the future"),
    ],
)
def test_a_record_was_made_after_its_inputs(inputs: list[Hours], earliest: list[int | None]) -> None:
    earliest_times = find_earliest_times(times([48, -2]), NOON, [times(hours) for hours in inputs])

    assert earliest_times == [None if hour is None else NOON + hour * HOUR for hour in earliest]


@given(st.lists(st.tuples(st.integers(-99, 0), st.integers(-YEARS, YEARS))))
def test_no_wrong_clock_makes_a_record_newer_than_later_ones(drawn_offsets: list[tuple[int, int]]) -> None:
    true = sorted(hour for hour, _ in drawn_offsets)
    recorded_hours = [
        hour + (off if number % 2 else 0)
        for number, (hour, (_, off)) in enumerate(zip(true, drawn_offsets, strict=True))
    ]

    earliest = find_earliest_times(times(recorded_hours), NOON)

    for number in range(0, len(true), 2):
        assert all(at is None or at <= times(true)[number] for at in earliest[: number + 1])
        assert earliest[number] is not None

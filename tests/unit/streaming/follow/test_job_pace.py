"""For how long a job may make no batch, by the batches that it has made."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.streaming.follow.follower import JobPace

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
START = 20_000 * DAY
WORKDAYS = [START + day * DAY for day in range(40) if day % 7 < 5]


def estimate(times: Sequence[int]) -> float | None:
    pace = JobPace()
    for time in times:
        pace.note(time)
    return pace.estimate_silence()


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        pytest.param([], None, id="no batch"),
        pytest.param([START], 4 * 86_400, id="one batch"),
        pytest.param([START + n * SECOND for n in range(600)], 4 * 86_400, id="ten minutes of a first run"),
        pytest.param([START + n * HOUR for n in range(24 * 8)], 2 * 3_600, id="hourly for a week"),
        pytest.param(WORKDAYS, 2 * 3 * 86_400, id="nightly, not at weekends"),
        pytest.param(
            [START, START + 9 * DAY, *range(START + 9 * DAY, START + 40 * DAY, HOUR)], 7_200, id="outage long ago"
        ),
        pytest.param(
            [START, START + 8 * DAY, START + 7 * DAY, START + 8 * DAY + HOUR], 16 * 86_400, id="clock set back"
        ),
    ],
)
def test_silence_is_twice_the_longest_time_between_batches(times: Sequence[int], seconds: float | None) -> None:
    assert estimate(times) == seconds


@given(st.lists(st.integers(0, 10 * DAY), max_size=30))
def test_a_job_that_keeps_its_pace_is_never_silent_for_too_long(gaps: Sequence[int]) -> None:
    pace, now = JobPace(), START
    for gap in gaps:
        now += min(gap, DAY)
        pace.note(now)
    allowed = pace.estimate_silence()

    assert allowed is None or all(min(gap, DAY) / 1e6 <= allowed for gap in gaps[1:][-2:])

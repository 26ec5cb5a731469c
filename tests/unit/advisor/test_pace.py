"""Pace of event time by log time: one decision for all commands, from the epochs where they show it."""

from collections.abc import Sequence

import numpy as np
import pytest

from cutover.lake.epochs.read_speed import ReadSpeed, tells_real_speed
from cutover.reconcile.advisor.predict import UNKNOWN, Appended, compute_pace, find_pace

MINUTE = 60_000_000
UNKNOWN_SPEED = ReadSpeed(is_replay=None, speed=None, pace=None)


def append(minutes: Sequence[tuple[int, int | None]]) -> Appended:
    """Return records of one partition by minutes of log time and event time."""
    return Appended(
        partitions=np.zeros(len(minutes), np.int64),
        log_times=np.array([log * MINUTE for log, _ in minutes], np.int64),
        events=np.array([UNKNOWN if event is None else event * MINUTE for _, event in minutes], np.int64),
    )


def test_pace_is_that_of_the_newest_event_time() -> None:
    live = append([(minute, minute) for minute in range(100)])
    old_records = append([(minute, 5_000 if minute == 0 else 60 * minute) for minute in range(80)])
    load = append([(minute, 60 * minute) for minute in range(100)])

    assert compute_pace(live) == pytest.approx(1)
    assert compute_pace(old_records) == 0
    assert compute_pace(load) == pytest.approx(60)
    assert compute_pace(append([(0, minute) for minute in range(100)])) is None
    assert compute_pace(append([(minute, None) for minute in range(9)])) is None


def test_one_wrong_clock_does_not_change_the_pace() -> None:
    clock_ahead = [(minute, minute) for minute in range(1_000)] + [(1_000, 90_000)]

    assert compute_pace(append(clock_ahead)) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("pace", [0.0, 1.0, 60.0])
def test_log_timestamps_show_real_speed_if_the_epochs_show_that_they_do(pace: float) -> None:
    load = append([(minute, 60 * minute) for minute in range(100)])

    assert find_pace(ReadSpeed(is_replay=True, speed=None, pace=pace), load) == pace
    assert find_pace(UNKNOWN_SPEED, load) == compute_pace(load)
    assert tells_real_speed(pace) == (pace <= 1)
    assert not tells_real_speed(None)

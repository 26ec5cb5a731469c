"""The watermark's rules, one by one. Times of events in microseconds, of the clock in seconds."""

from dataclasses import replace

import pytest

from cutover.definition import Fixed, Lateness
from cutover.records.watermark import Observation, WatermarkState, advance_watermark, compute_final_watermark

SECOND = 1_000_000
LATENESS = Lateness(out_of_orderness="2 seconds", idle_after="10 seconds")


def observe(now: float, **partitions: tuple[int, int, int | None]) -> Observation:
    """Build an observation from `p0=(read, high, newest event time in seconds)`."""
    parts = {int(name[1:]): value for name, value in partitions.items()}
    return Observation(
        now=now,
        read={p: read for p, (read, _, _) in parts.items()},
        high={p: high for p, (_, high, _) in parts.items()},
        max_event={p: event * SECOND for p, (_, _, event) in parts.items() if event is not None},
    )


def after(*looks: Observation, start: WatermarkState | None = None) -> WatermarkState:
    """Advance the watermark through observations."""
    state = start or WatermarkState()
    for observe in looks:
        state = advance_watermark(state, observe, LATENESS)
    return state


def test_watermark_follows_the_slowest_partition_at_the_out_of_orderness() -> None:
    assert after(observe(0, p0=(1, 1, 90), p1=(1, 1, 50))).watermark == (50 - 2) * SECOND


def test_partition_that_never_held_a_record_is_not_active() -> None:
    assert after(observe(0, p0=(1, 1, 90), p1=(0, 0, None))).watermark == (90 - 2) * SECOND


def test_partition_with_only_unread_records_holds_the_watermark() -> None:
    assert after(observe(0, p0=(1, 1, 90), p1=(0, 7, None))).watermark is None


def test_partition_whose_records_were_all_malformed_does_not_hold_once_they_are_read() -> None:
    assert after(observe(0, p0=(1, 1, 90), p1=(7, 7, None))).watermark == (90 - 2) * SECOND


def test_quiet_partition_stays_in_the_minimum_until_the_idle_time_is_over() -> None:
    quiet = [observe(0, p0=(1, 1, 10), p1=(1, 1, 50)), observe(9, p0=(1, 1, None), p1=(2, 2, 90))]

    assert after(*quiet).watermark == (10 - 2) * SECOND
    assert after(*quiet, observe(10, p0=(1, 1, None), p1=(2, 2, None))).watermark == (90 - 2) * SECOND


def test_idle_partitions_are_named() -> None:
    assert (
        frozenset({0})
        == after(observe(0, p0=(1, 1, 10), p1=(1, 1, 50)), observe(10, p0=(1, 1, None), p1=(2, 2, 90))).idle
    )


def test_partition_blocked_behind_an_open_transaction_is_not_idle() -> None:
    blocked = [observe(0, p0=(1, 3, 10), p1=(1, 1, 50)), observe(60, p0=(1, 3, None), p1=(2, 2, 90))]

    assert frozenset() == after(*blocked).idle
    assert after(*blocked).watermark == (10 - 2) * SECOND


def test_a_record_between_two_observations_ends_the_quiet_period() -> None:
    assert frozenset() == after(observe(0, p0=(1, 1, 10)), observe(8, p0=(2, 2, 11)), observe(16, p0=(2, 2, None))).idle


def test_waking_partition_does_not_lower_the_watermark() -> None:
    asleep = [observe(0, p0=(1, 1, 10), p1=(1, 1, 50)), observe(10, p0=(1, 1, None), p1=(2, 2, 90))]

    woken = after(*asleep, observe(11, p0=(2, 2, 12), p1=(2, 2, None)))

    assert frozenset() == woken.idle
    assert woken.watermark == (90 - 2) * SECOND


def test_all_idle_holds_the_watermark() -> None:
    assert after(observe(0, p0=(1, 1, 10)), observe(99, p0=(1, 1, None))).watermark == (10 - 2) * SECOND


def test_idleness_restarts_with_each_driver() -> None:
    stopped = after(observe(0, p0=(1, 1, 10), p1=(1, 1, 50)), observe(10, p0=(1, 1, None), p1=(2, 2, 90)))
    started = WatermarkState(watermark=stopped.watermark, max_event=stopped.max_event)

    assert frozenset() == after(observe(0, p0=(1, 1, None), p1=(2, 2, None)), start=started).idle


def test_partition_that_never_held_a_record_is_never_called_idle() -> None:
    looks = [observe(now, p0=(1, 1, 90), p1=(0, 0, None)) for now in (0, 5)]

    assert after(*looks, observe(99, p0=(2, 2, 91), p1=(0, 0, None))).idle == frozenset()


def test_an_unread_partition_holds_the_watermark_from_its_first_record() -> None:
    observation = observe(0, p0=(1, 1, 90))

    assert after(replace(observation, high={0: 1, 1: 1})).watermark is None


MINUTE = 60 * SECOND
LATE = Lateness(allowed="5 minutes", out_of_orderness="2 seconds")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(WatermarkState(), None, id="nothing was seen"),
        pytest.param(WatermarkState(watermark=7), 7, id="no event since the start"),
        pytest.param(WatermarkState(max_event={0: 0, 1: 10 * MINUTE}), (20 + 5) * MINUTE, id="the newest window"),
        pytest.param(WatermarkState(max_event={0: 10 * MINUTE - 1}, watermark=9), (10 + 5) * MINUTE, id="behind it"),
        pytest.param(WatermarkState(max_event={0: 1}, watermark=99 * MINUTE), 99 * MINUTE, id="it never goes back"),
    ],
)
def test_the_last_watermark_closes_the_newest_window(state: WatermarkState, expected: int | None) -> None:
    assert compute_final_watermark(state, Fixed(minutes=10), LATE) == expected

"""The watermark's rules, one by one. Times of events in microseconds, of the clock in seconds."""

from cutover.definition import Lateness
from cutover.records.watermark import Observation, WatermarkState, advance

SECOND = 1_000_000
LATENESS = Lateness(out_of_orderness="2 seconds", idle_after="10 seconds")


def look(now: float, **partitions: tuple[int, int, int | None]) -> Observation:
    """Return an observation from `p0=(read, high, newest event time in seconds)`."""
    parts = {int(name[1:]): value for name, value in partitions.items()}
    return Observation(
        now=now,
        read={p: read for p, (read, _, _) in parts.items()},
        high={p: high for p, (_, high, _) in parts.items()},
        max_event={p: event * SECOND for p, (_, _, event) in parts.items() if event is not None},
    )


def after(*looks: Observation, start: WatermarkState | None = None) -> WatermarkState:
    """Return the state after some observations."""
    state = start or WatermarkState()
    for seen in looks:
        state = advance(state, seen, LATENESS)
    return state


def test_watermark_follows_the_slowest_partition_at_the_out_of_orderness() -> None:
    assert after(look(0, p0=(1, 1, 90), p1=(1, 1, 50))).watermark == (50 - 2) * SECOND


def test_partition_that_never_held_a_record_is_not_active() -> None:
    assert after(look(0, p0=(1, 1, 90), p1=(0, 0, None))).watermark == (90 - 2) * SECOND


def test_partition_with_unread_records_and_none_read_holds() -> None:
    assert after(look(0, p0=(1, 1, 90), p1=(0, 7, None))).watermark is None


def test_partition_whose_records_were_all_malformed_does_not_hold_once_they_are_read() -> None:
    assert after(look(0, p0=(1, 1, 90), p1=(7, 7, None))).watermark == (90 - 2) * SECOND


def test_quiet_partition_stays_in_the_minimum_until_the_idle_time_is_over() -> None:
    quiet = [look(0, p0=(1, 1, 10), p1=(1, 1, 50)), look(9, p0=(1, 1, None), p1=(2, 2, 90))]

    assert after(*quiet).watermark == (10 - 2) * SECOND
    assert after(*quiet, look(10, p0=(1, 1, None), p1=(2, 2, None))).watermark == (90 - 2) * SECOND


def test_idle_partitions_are_named() -> None:
    assert frozenset({0}) == after(look(0, p0=(1, 1, 10), p1=(1, 1, 50)), look(10, p0=(1, 1, None), p1=(2, 2, 90))).idle


def test_partition_blocked_behind_an_open_transaction_is_not_idle() -> None:
    blocked = [look(0, p0=(1, 3, 10), p1=(1, 1, 50)), look(60, p0=(1, 3, None), p1=(2, 2, 90))]

    assert frozenset() == after(*blocked).idle
    assert after(*blocked).watermark == (10 - 2) * SECOND


def test_a_record_between_two_looks_ends_the_quiet() -> None:
    assert frozenset() == after(look(0, p0=(1, 1, 10)), look(8, p0=(2, 2, 11)), look(16, p0=(2, 2, None))).idle


def test_waking_partition_does_not_take_the_watermark_back() -> None:
    asleep = [look(0, p0=(1, 1, 10), p1=(1, 1, 50)), look(10, p0=(1, 1, None), p1=(2, 2, 90))]

    woken = after(*asleep, look(11, p0=(2, 2, 12), p1=(2, 2, None)))

    assert frozenset() == woken.idle
    assert woken.watermark == (90 - 2) * SECOND


def test_all_idle_holds_the_watermark() -> None:
    assert after(look(0, p0=(1, 1, 10)), look(99, p0=(1, 1, None))).watermark == (10 - 2) * SECOND


def test_idleness_counts_anew_from_each_start() -> None:
    stopped = after(look(0, p0=(1, 1, 10), p1=(1, 1, 50)), look(10, p0=(1, 1, None), p1=(2, 2, 90)))
    started = WatermarkState(watermark=stopped.watermark, max_event=stopped.max_event)

    assert frozenset() == after(look(0, p0=(1, 1, None), p1=(2, 2, None)), start=started).idle

"""Alerts fire as with one clock where the driver's clock, or that of the watch, is off or is set."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.driver_state import DriverState
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.facts import WatchFacts, compute_epoch_ages
from tests.unit.watch.facts_of import NOW, RUNNING, ago, facts, record, sample

HOUR, YEARS = 3_600.0, 1_000 * 86_400.0
OFF = [pytest.param(0.0, id="one clock"), *(pytest.param(o, id=f"{o:+.0f} s") for o in (-HOUR, HOUR, -YEARS, YEARS))]
LATE = {"counts": {"late": 50, "accepted": 50}}


def names(found: WatchFacts) -> list[str]:
    return [one.name for one in list_firing(found)]


def shifted(records: Sequence[EpochRecord], off: float) -> tuple[EpochRecord, ...]:
    """Return the records as a driver whose clock is ahead has them."""

    def shift(one: EpochRecord) -> EpochRecord:
        at = datetime.fromisoformat(one.processing_time) + timedelta(seconds=off)
        return replace(one, processing_time=at.isoformat())

    return tuple(map(shift, records))


@pytest.mark.parametrize("off", OFF)
def test_shares_are_taken_over_the_same_epochs_whatever_the_drivers_clock_says(off: float) -> None:
    driver = replace(RUNNING, ahead=off)
    old, new = record(6, age=700, **LATE), record(7, age=1)

    assert names(facts(epochs=shifted([old, new], off), driver=driver)) == []
    assert names(facts(epochs=shifted([replace(old, processing_time=ago(500)), new], off), driver=driver)) == [
        "LateRateHigh"
    ]


@pytest.mark.parametrize("off", OFF)
def test_a_topic_is_quiet_for_as_long_whatever_the_drivers_clock_says(off: float) -> None:
    driver = replace(RUNNING, ahead=off)

    assert names(facts(epochs=shifted([record(age=61)], off), driver=driver)) == ["NoInput"]
    assert names(facts(epochs=shifted([record(age=59)], off), driver=driver)) == []


@pytest.mark.parametrize("off", OFF)
def test_a_driver_that_died_pages_whatever_its_clock_said(off: float) -> None:
    unread = sample(shifted([record(age=130)], off)[0], end_offsets={0: 60, 1: 50}, high_watermarks={0: 60, 1: 50})
    died = DriverState(alive=False, state="DIED", at=ago(125 - off), ahead=off)

    found = facts(epochs=(unread.epoch,), samples=(unread,), driver=died)

    assert names(found) == ["StreamNotRunning"]


def test_a_driver_that_lives_elsewhere_and_just_committed_is_not_missed() -> None:
    unread = sample(record(age=3), end_offsets={0: 60, 1: 50}, high_watermarks={0: 60, 1: 50})
    other = DriverState(alive=False, state="STOPPED", at=ago(9 * HOUR))

    assert names(facts(epochs=(unread.epoch,), samples=(unread,), driver=other)) == []


@pytest.mark.parametrize("by", [timedelta(hours=-1), timedelta(hours=1)], ids=["back", "ahead"])
@pytest.mark.parametrize(("seconds", "expected"), [(130, ["StreamNotRunning"]), (60, [])])
def test_our_own_looks_last_as_long_where_the_clock_of_the_watch_is_set_between_them(
    by: timedelta, seconds: float, expected: list[str]
) -> None:
    unread = {"end_offsets": {0: 60, 1: 50}, "high_watermarks": {0: 60, 1: 50}}
    first, last = (sample(record(age=1), age=age, **unread) for age in (seconds, 0.0))

    found = facts(epochs=(last.epoch,), samples=(replace(first, at=first.at - by), last))

    assert names(found) == expected


@given(st.lists(st.integers(-(10**8), 10**8), min_size=1, max_size=20))
def test_no_epoch_is_younger_than_a_later_one(times: list[int]) -> None:
    records = [record(number, age=age) for number, age in enumerate(times)]

    ages = compute_epoch_ages(records, None, NOW)

    in_order = [ages[number] for number in range(len(times))]
    assert in_order == sorted(in_order, reverse=True)
    assert in_order[-1] == max(0.0, times[-1])

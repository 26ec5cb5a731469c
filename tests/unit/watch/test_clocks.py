"""Alerts fire as with one clock, although the clock of the driver or of the watch is wrong or is set."""

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
from tests.support.history.watch_facts import NOW, RUNNING, ago, make_epoch, make_facts, make_sample

HOUR, YEARS = 3_600.0, 1_000 * 86_400.0
CLOCK_OFFSETS = [
    pytest.param(0.0, id="one clock"),
    *(pytest.param(o, id=f"{o:+.0f} s") for o in (-HOUR, HOUR, -YEARS, YEARS)),
]
LATE = {"counts": {"late": 50, "accepted": 50}}


def list_names(facts: WatchFacts) -> list[str]:
    return [alert.name for alert in list_firing(facts)]


def shift_epochs(epochs: Sequence[EpochRecord], off: float) -> tuple[EpochRecord, ...]:
    """Return epochs as recorded by a driver whose clock is ahead."""

    def shift(epoch: EpochRecord) -> EpochRecord:
        at = datetime.fromisoformat(epoch.processing_time) + timedelta(seconds=off)
        return replace(epoch, processing_time=at.isoformat())

    return tuple(map(shift, epochs))


@pytest.mark.parametrize("off", CLOCK_OFFSETS)
def test_shares_cover_the_same_epochs_for_any_driver_clock(off: float) -> None:
    driver = replace(RUNNING, ahead=off)
    old, new = make_epoch(6, age=700, **LATE), make_epoch(7, age=1)

    assert list_names(make_facts(epochs=shift_epochs([old, new], off), driver=driver)) == []
    assert list_names(
        make_facts(epochs=shift_epochs([replace(old, processing_time=ago(500)), new], off), driver=driver)
    ) == ["LateRateHigh"]


@pytest.mark.parametrize("off", CLOCK_OFFSETS)
@pytest.mark.parametrize(("filtered", "expected"), [((0, 200), ["FilteredRateHigh"]), ((200, 0), [])])
def test_filtered_records_of_the_last_minutes_count_for_any_driver_clock(
    off: float, filtered: tuple[int, int], expected: list[str]
) -> None:
    driver = replace(RUNNING, ahead=off)
    old, new = (
        make_epoch(6 + n, age=age, counts={"filtered": count, "accepted": 200 - count}, records=200)
        for n, (age, count) in enumerate(zip((700, 1), filtered, strict=True))
    )

    assert list_names(make_facts(epochs=shift_epochs([old, new], off), driver=driver)) == expected


@pytest.mark.parametrize("off", CLOCK_OFFSETS)
def test_quiet_time_of_a_topic_is_the_same_for_any_driver_clock(off: float) -> None:
    epochs = shift_epochs([make_epoch(age=61)], off)

    for seconds, expected in ((61, ["NoInput"]), (59, [])):
        driver = replace(RUNNING, ahead=off, quiet_since=ago(seconds - off))
        assert list_names(make_facts(epochs=epochs, driver=driver)) == expected


@pytest.mark.parametrize("off", [-HOUR, HOUR])
def test_pause_counts_as_long_though_the_clock_was_set_since_the_last_epoch(off: float) -> None:
    epochs = shift_epochs([make_epoch(age=55)], off)

    for seconds, expected in ((61, ["NoInput"]), (59, [])):
        driver = replace(RUNNING, run_id="r", quiet_since=ago(seconds))
        assert list_names(make_facts(epochs=epochs, driver=driver)) == expected


@pytest.mark.parametrize("off", [-HOUR, 0.0, HOUR])
def test_a_host_whose_clock_is_an_hour_off_pauses_no_topic_and_stops_no_driver(off: float) -> None:
    epochs = shift_epochs([make_epoch(age=3)], off)
    unread = make_sample(epochs[0], end_offsets={0: 60, 1: 50}, high_watermarks={0: 60, 1: 50})
    elsewhere = DriverState(alive=False, state="STOPPED", at=ago(9 * HOUR), epoch=3, run_id="q")

    for driver in (DriverState(), elsewhere):
        assert list_names(make_facts(epochs=epochs, driver=driver)) == []
        assert list_names(make_facts(epochs=epochs, samples=(unread,), driver=driver)) == []


@pytest.mark.parametrize("off", [-HOUR, HOUR, YEARS])
def test_samples_show_a_pause_for_any_clock_of_a_remote_driver(off: float) -> None:
    epochs = shift_epochs([make_epoch(age=3)], off)
    samples = tuple(make_sample(epochs[0], age=age) for age in (61, 30, 0))

    assert list_names(make_facts(epochs=epochs, samples=samples, driver=DriverState())) == ["NoInput"]


@pytest.mark.parametrize("off", CLOCK_OFFSETS)
def test_dead_driver_pages_for_any_clock(off: float) -> None:
    unread = make_sample(
        shift_epochs([make_epoch(age=130)], off)[0], end_offsets={0: 60, 1: 50}, high_watermarks={0: 60, 1: 50}
    )
    died = DriverState(alive=False, state="DIED", at=ago(125 - off), ahead=off)

    facts = make_facts(epochs=(unread.epoch,), samples=(unread,), driver=died)

    assert list_names(facts) == ["StreamNotRunning"]


def test_driver_on_another_host_that_just_committed_is_running() -> None:
    unread = make_sample(make_epoch(age=3), end_offsets={0: 60, 1: 50}, high_watermarks={0: 60, 1: 50})
    other = DriverState(alive=False, state="STOPPED", at=ago(9 * HOUR))

    assert list_names(make_facts(epochs=(unread.epoch,), samples=(unread,), driver=other)) == []


@pytest.mark.parametrize("by", [timedelta(hours=-1), timedelta(hours=1)], ids=["back", "ahead"])
@pytest.mark.parametrize(("seconds", "expected"), [(130, ["StreamNotRunning"]), (60, [])])
def test_time_between_samples_does_not_depend_on_the_clock_of_the_watch(
    by: timedelta, seconds: float, expected: list[str]
) -> None:
    unread = {"end_offsets": {0: 60, 1: 50}, "high_watermarks": {0: 60, 1: 50}}
    oldest, newest = (make_sample(make_epoch(age=1), age=age, **unread) for age in (seconds, 0.0))

    facts = make_facts(epochs=(newest.epoch,), samples=(replace(oldest, at=oldest.at - by), newest))

    assert list_names(facts) == expected


@given(st.lists(st.integers(-(10**8), 10**8), min_size=1, max_size=20))
def test_no_epoch_is_younger_than_a_later_one(times: list[int]) -> None:
    epochs = [make_epoch(number, age=age) for number, age in enumerate(times)]

    ages = compute_epoch_ages(epochs, None, NOW)

    in_order = [ages[number] for number in range(len(times))]
    assert in_order == sorted(in_order, reverse=True)
    assert in_order[-1] == max(0.0, times[-1])

"""Lengths of time that are tried and advised: in the unit of the window, no longer than they have to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Daily, Fixed, Global, Monthly, Sessions, Sliding
from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import DefinitionError
from cutover.reconcile.advisor.predict import find_unit, round_up
from cutover.timestamps import MICROSECONDS, parse_duration, shorten_duration

DAY, HOUR, MINUTE, SECOND = (MICROSECONDS[unit] for unit in ("day", "hour", "minute", "second"))


@pytest.mark.parametrize(
    ("window", "unit"),
    [
        (Fixed(hours=1), HOUR),
        (Fixed(minutes=30), MINUTE),
        (Fixed(seconds=10), SECOND),
        (Daily(zone="Europe/Berlin"), DAY),
        (Monthly(zone="UTC"), DAY),
        (Global(), DAY),
        (Sessions(gap="30 minutes"), MINUTE),
        (Sliding(size="1 hour", every="5 minutes"), MINUTE),
    ],
)
def test_unit_is_the_largest_that_fits_into_a_window(window: WindowFn, unit: int) -> None:
    assert find_unit(window) == unit


@given(st.integers(-DAY, 5_000 * DAY), st.sampled_from([DAY, HOUR, MINUTE, SECOND]))
def test_a_rounded_length_is_sufficient_and_barely_longer(required: int, unit: int) -> None:
    length = round_up(required, unit)

    smaller = {DAY: HOUR, HOUR: MINUTE, MINUTE: SECOND, SECOND: MICROSECONDS["millisecond"]}[unit]
    assert length >= required
    assert length == 0 if required <= 0 else length - required < max(required / 10, smaller)


def test_days_of_a_heavy_tail_are_whole() -> None:
    assert round_up(350 * DAY + 3 * HOUR, DAY) == 351 * DAY
    assert round_up(5 * HOUR + 1, DAY) == 6 * HOUR


@given(st.integers(0, 36_500 * DAY // 1_000))
def test_printed_lengths_can_be_parsed(millis: int) -> None:
    assert parse_duration(shorten_duration(millis * 1_000), of="test") == millis * 1_000


@pytest.mark.parametrize("text", ["1 d2 h", "5 hs", "3 m", "1 h -2 min", "h", "1 h,2 min"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(DefinitionError, match="expected a whole number and a unit"):
        parse_duration(text, of="test")

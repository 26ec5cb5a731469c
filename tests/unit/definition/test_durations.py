"""Durations as text, and the longest one that every engine can represent."""

from typing import Any

import pytest

from cutover.definition import Fixed, Lateness, Sliding
from cutover.definition.windows.kinds import SlidingWindows
from cutover.errors import DefinitionError
from cutover.timestamps import parse_duration

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("30 minutes", 1_800_000_000),
        ("1 day", DAY),
        (" 250milliseconds ", 250_000),
        ("0 seconds", 0),
        ("1 hour 2 minutes", 3_720_000_000),
        ("1 d 2 h", 26 * DAY // 24),
    ],
)
def test_numbers_and_units(text: str, micros: int) -> None:
    assert parse_duration(text, of="x") == micros


@pytest.mark.parametrize("text", ["", "1", "1.5 hours", "-1 hour", "1 week", "1 hour2 minutes", "9" * 5_000 + " days"])
def test_other_text_is_rejected_with_its_field(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"`lateness\.allowed`: expected"):
        Lateness(allowed=text)


@pytest.mark.parametrize("value", [600, 1.5, None])
def test_non_text_is_rejected_with_its_field(value: Any) -> None:
    with pytest.raises(DefinitionError, match=rf"`window\.size`: expected a whole number and a unit.*got `{value}`"):
        Sliding(size=value, every="10 minutes")


@pytest.mark.parametrize("field", ["out_of_orderness", "allowed", "idle_after", "max_ahead"])
def test_a_hundred_years_are_the_most(field: str) -> None:
    Lateness(**{field: "36500 days"})
    with pytest.raises(DefinitionError, match=rf"`lateness\.{field}`: expected at most 36500 days"):
        Lateness(**{field: "36501 days"})


def test_a_window_is_at_most_a_hundred_years_long() -> None:
    Fixed(days=36_500)
    with pytest.raises(DefinitionError, match="at most 36500 days"):
        SlidingWindows(size=36_501 * DAY, every=DAY)

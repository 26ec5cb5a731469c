"""Elements, scales and ticks."""

from datetime import UTC, datetime, timedelta

import pytest

from cutover.output import svg
from cutover.output.svg import Scale

NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)


def test_texts_and_attributes_are_escaped() -> None:
    assert svg.element("g", "<b>", class_='"x"') == '<g class="&#34;x&#34;">&lt;b&gt;</g>'


def test_elements_inside_elements_are_kept() -> None:
    assert svg.element("g", svg.element("a")) == "<g><a></a></g>"


@pytest.mark.parametrize(
    ("low", "high", "about", "expected"),
    [
        (0, 34, 4, [0, 10, 20, 30, 40]),
        (0, 1, 4, [0, 0.25, 0.5, 0.75, 1]),
        (-115, 0, 5, [-125, -100, -75, -50, -25, 0]),
        (5, 5, 4, [5, 6]),
    ],
)
def test_ticks_are_round_and_hold_the_data(low: float, high: float, about: int, expected: list[float]) -> None:
    assert svg.ticks(low, high, about) == expected


def test_scale_of_one_value_is_the_middle() -> None:
    assert Scale(low=3, high=3, start=0, end=10)(3) == 5


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (timedelta(hours=6), ["01 Jan", "03:00", "06:00"]),
        (timedelta(days=3), ["01 Jan", "02 Jan", "03 Jan", "04 Jan"]),
        (timedelta(days=365), ["2013", "Apr", "Jul", "Oct", "2014"]),
        (timedelta(days=365 * 9), ["2013", "2015", "2017", "2019", "2021"]),
    ],
)
def test_time_ticks_are_hours_days_months_or_years(length: timedelta, labels: list[str]) -> None:
    assert [label for _, label in svg.time_ticks(NEW_YEAR, NEW_YEAR + length, 5)] == labels

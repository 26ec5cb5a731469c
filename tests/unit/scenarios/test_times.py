"""Times of a scenario: clock times, dates and infinite times, parsed and formatted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition.windows.window_fn import FOREVER
from cutover.errors import DefinitionError
from cutover.scenarios.reading.texts import Style, format_scenario_time, parse_scenario_time

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("00:00:01", SECOND),
        ("12:05", 43_500 * SECOND),
        ("12:05:19.98", 43_519_980_000),
        ("-00:00:01.5", -1_500_000),
        ("36:00:00", 129_600 * SECOND),
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01 01:00:01+01:00", SECOND),
        ("1969-12-31T23:59:59", -SECOND),
        ("+inf", FOREVER),
        ("inf", FOREVER),
        ("-inf", -FOREVER),
    ],
)
def test_time_is_read(text: str, micros: int) -> None:
    assert parse_scenario_time(text, of="x").micros == micros


@pytest.mark.parametrize(
    "text", ["", "12", "12:60", "12:00:60", "12:5:19", "noon", "2013-02-30T00:00:00Z", "0999-01-01T00:00:00Z", 5, None]
)
def test_invalid_time_is_rejected_with_its_place(text: object) -> None:
    with pytest.raises(DefinitionError, match=r"points\[3\]\.event_time: expected a time such as `12:05:19`"):
        parse_scenario_time(text, of="points[3].event_time")


@given(micros=st.integers(-(10**15), 10**15), style=st.sampled_from(Style))
def test_times_round_trip(micros: int, style: Style) -> None:
    assert parse_scenario_time(format_scenario_time(micros, style), of="x").micros == micros


def test_infinite_times_are_formatted() -> None:
    assert (format_scenario_time(-FOREVER, Style.CLOCK), format_scenario_time(FOREVER, Style.DATE)) == ("-inf", "+inf")


def test_whole_seconds_are_written_without_a_fraction() -> None:
    assert format_scenario_time(43_519_500_000, Style.CLOCK) == "12:05:19.5"
    assert format_scenario_time(43_519_000_000, Style.CLOCK) == "12:05:19"

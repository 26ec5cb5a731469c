from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.timestamps import LAST, format_micros, from_micros, parse_micros, to_micros

MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(MOMENTS)
def test_a_time_round_trips_to_the_microsecond(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment
    assert parse_micros(str(format_micros(to_micros(moment)))) == to_micros(moment)


def test_zones_are_instants_and_no_zone_is_utc() -> None:
    east = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=1)))

    assert to_micros(east) == to_micros(datetime(2026, 3, 1)) == parse_micros("2026-03-01")  # noqa: DTZ001 -- the point


@pytest.mark.parametrize(
    ("micros", "expected"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (2**62, LAST),
        (-(2**62), "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc_and_what_no_calendar_has_as_its_end(micros: int | None, expected: str | None) -> None:
    assert format_micros(micros) == expected

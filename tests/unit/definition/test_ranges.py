"""Days as given on the command line, and the windows that a range touches."""

from datetime import UTC, date, datetime

import pytest

from cutover.definition import Daily, Fixed, Global
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import (
    EARLIEST,
    LATEST,
    AlignedWindowFn,
    compute_day_range,
    extend_to_windows,
    parse_range_end,
    select_last_window,
)
from cutover.errors import DefinitionError

HOUR = 3_600_000_000
BERLIN = Daily(zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-02-08", datetime(2013, 2, 7, 23, tzinfo=UTC)),
        ("2013-07-08", datetime(2013, 7, 7, 22, tzinfo=UTC)),
        ("2013-02-08T00:00", datetime(2013, 2, 8, tzinfo=UTC)),
        ("2013-02-08T01:00+01:00", datetime(2013, 2, 8, tzinfo=UTC)),
    ],
)
def test_a_date_begins_where_its_daily_window_does(text: str, expected: datetime) -> None:
    assert parse_range_end(text, BERLIN, of="`--from`") == expected


def test_a_day_without_daily_windows_is_one_of_utc() -> None:
    day_range = compute_day_range(date(2013, 2, 8), Fixed(hours=1))

    assert day_range == (datetime(2013, 2, 8, tzinfo=UTC), datetime(2013, 2, 9, tzinfo=UTC))


def test_invalid_time_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"`--to`: expected a time such as .* got `yesterday`"):
        parse_range_end("yesterday", BERLIN, of="`--to`")


@pytest.mark.parametrize(
    "window",
    [
        Fixed(hours=1),
        Fixed(days=7),
        SlidingWindows(size=3 * HOUR, every=HOUR),
        SlidingWindows(size=5 * HOUR, every=2 * HOUR, offset=HOUR),
        BERLIN,
        Daily(zone="America/Sao_Paulo", offset="6 hours"),
        Global(),
    ],
    ids=str,
)
@pytest.mark.parametrize("length", [1, HOUR, 24 * HOUR, 30 * 24 * HOUR])
def test_a_range_touches_every_window_that_shares_a_moment_with_it_and_no_other(
    window: AlignedWindowFn, length: int
) -> None:
    start = 1_360_317_600_000_000 + 7
    range_start, end = extend_to_windows(window, (start, start + length))

    begins, ends = window.assign_windows(range_start)[-1], select_last_window(window, range_start)
    assert begins == ends
    assert range_start == min(interval.start for interval in window.assign_windows(start))
    assert end == max(interval.end for interval in window.assign_windows(start + length - 1))


def test_a_range_is_cut_where_event_time_ends() -> None:
    assert extend_to_windows(Global(), (EARLIEST - HOUR, LATEST + HOUR)) == (EARLIEST, LATEST)
    with pytest.raises(DefinitionError, match="between the years 1000 and 9000"):
        extend_to_windows(Fixed(hours=1), (LATEST, LATEST + HOUR))

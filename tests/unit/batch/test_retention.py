from collections.abc import Mapping
from dataclasses import replace

import pytest

from batch.retention import frozen, frozen_before, left, lost, whole_from
from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic

HOUR = 3_600_000_000
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    lateness=Lateness(max_ahead="0 seconds"),
)


def test_what_retention_took_before_a_scan_is_lost_and_the_rest_is_left() -> None:
    offsets, earliest = {0: (5, 9), 1: (0, 4), 2: (0, 3)}, {0: 7, 1: 0, 2: 3}

    assert lost(offsets, earliest) == {0: 7, 2: 3}
    assert left(offsets, earliest) == {0: (7, 9), 1: (0, 4)}


@pytest.mark.parametrize(
    ("first_at_hour", "expected"),
    [
        ({0: 7, 1: 7, 2: 9, 3: 12}, 2),  # windows 0 and 1 begin no later than the first record left
        ({0: 8, 1: 8, 2: 9, 3: None}, 0),  # the first record left is older than window 0, and so is all that was lost
        ({0: 7, 1: 7, 2: 7, 3: 7}, None),
        ({0: 7, 1: 7, 2: 7, 3: None}, 3),  # nothing left is that new, so nothing lost was
    ],
)
def test_windows_are_whole_from_the_first_that_begins_after_the_oldest_record_left(
    first_at_hour: Mapping[int, int | None], expected: int | None
) -> None:
    found = whole_from([h * HOUR for h in range(4)], {0: 7}, PIPELINE, lambda at: {0: first_at_hour[at // HOUR]})

    assert found == (None if expected is None else expected * HOUR)


def test_the_log_is_asked_from_the_time_at_which_a_record_of_the_window_may_have_been_written() -> None:
    asked: list[int] = []

    def lookup(at: int) -> dict[int, int | None]:
        asked.append(at)
        return {0: None}

    ahead = replace(PIPELINE, lateness=Lateness(max_ahead="2 hours"))
    whole_from([5 * HOUR], {0: 7}, ahead, lookup)

    assert asked == [3 * HOUR]


def test_the_entry_of_frozen_windows_gives_its_time_back() -> None:
    assert frozen_before(frozen(4 * HOUR, PIPELINE), PIPELINE) == 4 * HOUR

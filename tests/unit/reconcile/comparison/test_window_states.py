"""States of windows: only closed windows without missing records are compared."""

from unittest.mock import Mock

import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.definition.windows.window_fn import Interval
from cutover.lake.batch_runs import Incomplete, Range
from cutover.lake.epochs.delivery import NO_FAULTS
from cutover.reconcile.comparison.sides import list_incomplete_ranges, open_own_sides, state_of

HOUR = 3_600_000_000
PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
    lateness=Lateness(out_of_orderness="0 seconds", allowed="0 seconds"),
)


def evidence(*incomplete_ranges: tuple[int, int, str], stale: tuple[Range, ...] = ()) -> Mock:
    """Build evidence whose batch lacks records of hours `[from, to)`, closed up to hour 8."""
    incomplete = [
        Incomplete(window_start=a * HOUR, window_end=b * HOUR, reason=reason) for a, b, reason in incomplete_ranges
    ]
    run = Mock(incomplete=incomplete, stale=stale)
    return Mock(run=run, losses=(), delivered=NO_FAULTS, unread=(), watermark=8 * HOUR)


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        (0, "closed"),
        (1, "incomplete(expired)"),
        (2, "incomplete(expired)"),
        (3, "closed"),
        (5, "incomplete(lost)"),
        (7, "closed"),
        (8, "open"),
        (9, "incomplete(lost)"),
        (10, "open"),
    ],
)
def test_the_state_of_a_window_names_the_reason_why_it_is_not_compared(hour: int, expected: str) -> None:
    mock_evidence = evidence((1, 3, "expired"), (5, 6, "lost"), (9, 10, "lost"), (10, 11, "expired"))

    assert state_of(PIPELINE, mock_evidence, Interval(hour * HOUR, (hour + 1) * HOUR)) == expected


def test_a_lost_and_expired_window_is_lost() -> None:
    mock_evidence = evidence((1, 3, "expired"), (2, 3, "lost"))

    assert state_of(PIPELINE, mock_evidence, Interval(2 * HOUR, 3 * HOUR)) == "incomplete(lost)"


def test_each_uncompared_range_is_listed_once() -> None:
    mock_evidence = evidence((1, 3, "expired"), (5, 6, "lost"), stale=((6 * HOUR, 7 * HOUR),))

    assert list_incomplete_ranges(open_own_sides(PIPELINE, mock_evidence)) == {
        "lost": [(5 * HOUR, 6 * HOUR)],
        "doubled": [],
        "expired": [(1 * HOUR, 3 * HOUR)],
        "unread": [],
        "stale": [(6 * HOUR, 7 * HOUR)],
    }

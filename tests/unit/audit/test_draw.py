"""Samples that depend only on the seed, in which every window is equally likely."""

import random
from collections import Counter

import pytest

from cutover.definition import Daily, Fixed, Sliding
from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, list_windows
from cutover.reconcile.audit.window_sample import sample_windows

HOUR = 3_600_000_000
HOURS = [Interval(n * HOUR, (n + 1) * HOUR) for n in range(20)]
DRAWS = 4_000


def test_order_of_windows_does_not_change_the_sample() -> None:
    shuffled = HOURS[:]
    random.Random(1).shuffle(shuffled)  # noqa: S311 -- any order

    assert sample_windows(shuffled, 5, seed=7) == sample_windows(HOURS, 5, seed=7)


def test_an_additional_window_replaces_at_most_one() -> None:
    sample, extended_sample = (
        set(sample_windows(HOURS, 5, seed=7)),
        set(sample_windows([*HOURS, Interval(99 * HOUR, 100 * HOUR)], 5, seed=7)),
    )

    assert len(sample - extended_sample) <= 1


def test_every_window_is_drawn_equally_often() -> None:
    draw_counts = Counter(window_drawn for seed in range(DRAWS) for window_drawn in sample_windows(HOURS, 5, seed=seed))

    usual = DRAWS * 5 / 20
    assert len(draw_counts) == 20
    assert all(abs(count - usual) < 5 * (usual * 0.75) ** 0.5 for count in draw_counts.values())


def test_none_is_drawn_twice_and_no_more_than_there_are() -> None:
    assert sample_windows(HOURS, 50, seed=1) == tuple(HOURS)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Fixed(hours=1), [(0, 1), (1, 2), (2, 3)]),
        (Sliding(size="2 hours", every="1 hour"), [(-1, 1), (0, 2), (1, 3)]),
        (Daily(zone="UTC"), []),
    ],
)
def test_windows_are_listed_by_their_ends(window: AlignedWindowFn, expected: list[tuple[int, int]]) -> None:
    bounds = [(interval.start // HOUR, interval.end // HOUR) for interval in list_windows(window, 0, 3 * HOUR)]

    assert bounds == expected

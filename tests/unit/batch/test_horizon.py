"""Bounds of a batch run: the end of closed windows, and the windows that are complete in a log that lost records."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cutover.batch.plan import (
    PlanBounds,
    TouchedWindow,
    find_complete_start,
    find_unrecorded_gaps,
    first_left,
    is_outdated,
    plan,
    remaining_offsets,
)
from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.definition.windows.kinds import SlidingWindows
from cutover.definition.windows.window_fn import Interval
from tests.support.log.losses import LOSS

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="k string, at timestamp", event_time="at"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    lateness=Lateness(max_ahead="0 seconds"),
)


@pytest.mark.parametrize(("closed", "expected"), [(19, ()), (20, (Interval(10, 20),)), (21, (Interval(10, 20),))])
def test_a_window_that_ends_exactly_at_the_closing_time_is_computed(
    closed: int, expected: tuple[Interval, ...]
) -> None:
    touched = [TouchedWindow(window=Interval(10, 20), scan=0)]
    bounds = PlanBounds(window=SlidingWindows(size=10, every=10), closed=closed)

    assert plan(touched, [], bounds).compute == expected


def test_a_partition_without_an_earliest_offset_has_lost_nothing() -> None:
    offsets = {3: (0, 2)}

    assert first_left(offsets, {}) == {}
    assert remaining_offsets(offsets, {}) == offsets


@pytest.mark.parametrize(
    ("first_times", "is_whole"),
    [
        ({0: 8, 1: 6}, True),
        ({0: 8, 1: 5}, False),
        ({0: 7, 1: 6}, False),
        ({0: None, 1: 5}, False),
        ({0: None, 1: None}, True),
    ],
)
def test_a_window_is_complete_only_if_it_is_in_every_partition_with_losses(
    first_times: Mapping[int, int | None], is_whole: bool
) -> None:
    assert find_complete_start([0], {0: 7, 1: 5}, PIPELINE, lambda _: first_times) == (0 if is_whole else None)


def test_offsets_that_will_be_written_again_cover_no_gap() -> None:
    gap, offsets = {0: 60}, {0: (40, 90)}

    assert find_unrecorded_gaps(gap, offsets, [LOSS]) == {}
    assert find_unrecorded_gaps(gap, offsets, [replace(LOSS, again=True)]) == gap
    assert find_unrecorded_gaps(gap, offsets, [replace(LOSS, next=None)]) == gap


def test_a_run_is_outdated_by_one_of_several_losses() -> None:
    run: Any = SimpleNamespace(stream_version=0, topic_id="A")
    gap, anew = replace(LOSS, stream_version=1), replace(LOSS, stream_version=1, again=True)

    assert [is_outdated(run, losses) for losses in ([gap], [gap, anew], [anew, gap], [])] == [False, True, True, False]

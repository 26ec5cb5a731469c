"""Horizon of remembered ids: as long as a record of that event time could be accepted, in whole minutes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Daily, Fixed, Global, Lateness, Pipeline, Topic
from cutover.definition.model.pipeline import MINUTE, compute_id_horizon, compute_oldest_remembered
from cutover.definition.windows.kinds import SlidingWindows, Window
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.errors import DefinitionError

HOUR = 60 * MINUTE
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, k string, i bigint NOT NULL", event_time="at", record_id="i"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
    lateness=Lateness(allowed="20 minutes"),
)
WINDOWS = [
    Fixed(hours=1),
    Fixed(minutes=7, offset="3 minutes"),
    SlidingWindows(size=HOUR, every=25 * MINUTE),
    SlidingWindows(size=7, every=3),
    Daily(zone="Europe/Berlin"),
    Daily(zone="Pacific/Kwajalein", offset="90 minutes"),
]


def with_horizon(text: str | None, window: Window = PIPELINE.window) -> Pipeline:
    return replace(PIPELINE, window=window, source=replace(PIPELINE.source, id_horizon=text))


def test_horizon_is_the_window_plus_its_lateness() -> None:
    assert compute_id_horizon(PIPELINE) == 80 * MINUTE
    assert compute_id_horizon(with_horizon("5 minutes")) == 5 * MINUTE


def test_ids_are_forgotten_by_whole_minutes_behind_the_horizon() -> None:
    pipeline = with_horizon("5 minutes")

    assert compute_oldest_remembered(pipeline, 10 * MINUTE) == 5 * MINUTE
    assert compute_oldest_remembered(pipeline, 11 * MINUTE - 1) == 5 * MINUTE
    assert compute_oldest_remembered(pipeline, -1) == -6 * MINUTE
    assert compute_oldest_remembered(pipeline, None) is None


def test_without_ids_nothing_is_forgotten() -> None:
    assert compute_oldest_remembered(replace(PIPELINE, source=replace(PIPELINE.source, record_id=None)), HOUR) is None


def test_global_window_requires_a_horizon() -> None:
    with pytest.raises(DefinitionError, match='id_horizon="1 day"'):
        compute_id_horizon(with_horizon(None, Global()))
    assert compute_id_horizon(with_horizon("1 day", Global())) == 24 * HOUR


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(event=st.integers(-(10**16), 10**16), lag=st.integers(0, 200 * HOUR))
def test_ids_forgotten_by_default_can_no_longer_be_accepted(window: AlignedWindowFn, event: int, lag: int) -> None:
    pipeline, watermark = with_horizon(None, window), event + lag
    remembered = compute_oldest_remembered(pipeline, watermark)
    closed = (
        max(interval.end for interval in window.assign_windows(event)) + pipeline.lateness.allowed_micros <= watermark
    )

    assert remembered is not None
    assert closed or event >= remembered

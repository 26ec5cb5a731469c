"""The watermark under every mix of input, silence and restarts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Lateness
from cutover.definition.windows.kinds import SlidingWindows
from cutover.records.watermark import Observation, WatermarkState, advance_watermark, compute_final_watermark

pytestmark = pytest.mark.quick

LATENESS = Lateness(out_of_orderness="2 seconds", idle_after="10 seconds")
PARTITIONS = range(3)

counts = st.tuples(*[st.integers(0, 5)] * len(PARTITIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Events between two observations."""

    seconds: int  # seconds since the step before
    restart: bool
    arrived: tuple[int, ...]  # records that each partition gained
    read_counts: tuple[int, ...]  # records that the epoch read from each, at most
    events: tuple[int | None, ...]  # newest event time among those read


steps_drawn = st.lists(
    st.builds(
        Step,
        seconds=st.integers(0, 12),
        restart=st.booleans(),
        arrived=counts,
        read_counts=counts,
        events=st.tuples(*[st.none() | st.integers(-(10**9), 10**9)] * len(PARTITIONS)),
    ),
    max_size=12,
)


def observations(steps: Sequence[Step]) -> list[tuple[bool, Observation]]:
    """Turn drawn steps into what a stream would see: (a restart came before, the observation)."""
    now, read, high = 0.0, dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, 0)
    all_observations = []
    for step in steps:
        now += step.seconds
        high = {p: high[p] + step.arrived[p] for p in PARTITIONS}
        read_before, read = read, {p: min(high[p], read[p] + step.read_counts[p]) for p in PARTITIONS}
        events = {p: event for p, event in enumerate(step.events) if event is not None and read[p] > read_before[p]}
        all_observations.append((step.restart, Observation(now=now, read=read, high=high, max_event=events)))
    return all_observations


def states(steps: Sequence[Step]) -> list[tuple[WatermarkState, Observation, WatermarkState]]:
    """Return (before, seen, after) of each step; a restart keeps only what an epoch record holds."""
    state = WatermarkState()
    transitions = []
    for restart, observation in observations(steps):
        if restart:
            state = WatermarkState(watermark=state.watermark, max_event=state.max_event)
        next_state = advance_watermark(state, observation, LATENESS)
        transitions.append((state, observation, next_state))
        state = next_state
    return transitions


def newest_by_hand(steps: list[tuple[WatermarkState, Observation, WatermarkState]]) -> Mapping[int, int]:
    """Return the newest event time of each partition over all steps."""
    event_times = [item for _, observation, _ in steps for item in observation.max_event.items()]
    return {p: max(event for q, event in event_times if q == p) for p in {q for q, _ in event_times}}


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_watermark_never_goes_back(steps: Sequence[Step]) -> None:
    for state, _, next_state in states(steps):
        assert state.watermark is None or (next_state.watermark is not None and next_state.watermark >= state.watermark)


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_a_watermark_that_moved_is_the_minimum_of_the_partitions_that_are_not_idle(steps: Sequence[Step]) -> None:
    for state, _, next_state in states(steps):
        if next_state.watermark != state.watermark:
            newest = [event for p, event in next_state.max_event.items() if p not in next_state.idle]
            assert next_state.watermark == min(newest) - LATENESS.out_of_orderness_micros


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_maxima_are_those_of_all_observations(steps: Sequence[Step]) -> None:
    transitions = states(steps)

    assert newest_by_hand(transitions) == (transitions[-1][2].max_event if transitions else {})


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_a_partition_with_unread_records_and_no_event_time_yet_holds(steps: Sequence[Step]) -> None:
    for state, observation, next_state in states(steps):
        if any(observation.high[p] > observation.read[p] and p not in next_state.max_event for p in PARTITIONS):
            assert next_state.watermark == state.watermark


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_an_idle_partition_has_nothing_unread(steps: Sequence[Step]) -> None:
    for _, observation, next_state in states(steps):
        assert all(observation.read[p] == observation.high[p] > 0 for p in next_state.idle)


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_all_idle_holds(steps: Sequence[Step]) -> None:
    for state, _, next_state in states(steps):
        if set(next_state.max_event) <= next_state.idle:
            assert next_state.watermark == state.watermark


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn, size=st.integers(1, 50), period=st.integers(1, 50))
def test_final_watermark_closes_every_window_seen(steps: Sequence[Step], size: int, period: int) -> None:
    window = SlidingWindows(size=max(size, period), every=min(size, period))
    last_state = states(steps)[-1][2] if steps else WatermarkState()

    final = compute_final_watermark(last_state, window, LATENESS)

    for event in last_state.max_event.values():
        assert final is not None
        assert all(start + window.size + LATENESS.allowed_micros <= final for start, _ in window.assign_windows(event))

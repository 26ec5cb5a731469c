"""The watermark under every mix of input, silence and restarts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from cutover.definition import Lateness
from cutover.definition.windows.sliding import SlidingWindows
from cutover.records.watermark import Observation, WatermarkState, advance, compute_final_watermark

LATENESS = Lateness(out_of_orderness="2 seconds", idle_after="10 seconds")
PARTITIONS = range(3)

counts = st.tuples(*[st.integers(0, 5)] * len(PARTITIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens between two looks."""

    after: int  # seconds since the step before
    restart: bool
    arrived: tuple[int, ...]  # records that each partition gained
    taken: tuple[int, ...]  # records that the epoch read from each, at most
    events: tuple[int | None, ...]  # newest event time among those read


steps_drawn = st.lists(
    st.builds(
        Step,
        after=st.integers(0, 12),
        restart=st.booleans(),
        arrived=counts,
        taken=counts,
        events=st.tuples(*[st.none() | st.integers(-(10**9), 10**9)] * len(PARTITIONS)),
    ),
    max_size=12,
)


def observations(steps: Sequence[Step]) -> list[tuple[bool, Observation]]:
    """Turn drawn steps into what a stream would see: (a restart came before, the observation)."""
    now, read, high = 0.0, dict.fromkeys(PARTITIONS, 0), dict.fromkeys(PARTITIONS, 0)
    found = []
    for step in steps:
        now += step.after
        high = {p: high[p] + step.arrived[p] for p in PARTITIONS}
        before, read = read, {p: min(high[p], read[p] + step.taken[p]) for p in PARTITIONS}
        events = {p: event for p, event in enumerate(step.events) if event is not None and read[p] > before[p]}
        found.append((step.restart, Observation(now=now, read=read, high=high, max_event=events)))
    return found


def states(steps: Sequence[Step]) -> list[tuple[WatermarkState, Observation, WatermarkState]]:
    """Return (before, seen, after) of each step; a restart keeps only what an epoch record holds."""
    state = WatermarkState()
    found = []
    for restart, seen in observations(steps):
        if restart:
            state = WatermarkState(watermark=state.watermark, max_event=state.max_event)
        after = advance(state, seen, LATENESS)
        found.append((state, seen, after))
        state = after
    return found


def newest_by_hand(steps: list[tuple[WatermarkState, Observation, WatermarkState]]) -> Mapping[int, int]:
    """Return the newest event time of each partition over all steps."""
    seen = [item for _, one, _ in steps for item in one.max_event.items()]
    return {p: max(event for q, event in seen if q == p) for p in {q for q, _ in seen}}


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_watermark_never_goes_back(steps: Sequence[Step]) -> None:
    for before, _, after in states(steps):
        assert before.watermark is None or (after.watermark is not None and after.watermark >= before.watermark)


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_a_watermark_that_moved_is_the_minimum_of_the_partitions_that_are_not_idle(steps: Sequence[Step]) -> None:
    for before, _, after in states(steps):
        if after.watermark != before.watermark:
            newest = [event for p, event in after.max_event.items() if p not in after.idle]
            assert after.watermark == min(newest) - LATENESS.out_of_orderness_micros


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_maxima_are_those_of_all_observations(steps: Sequence[Step]) -> None:
    found = states(steps)

    assert newest_by_hand(found) == (found[-1][2].max_event if found else {})


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_a_partition_with_unread_records_and_no_event_time_yet_holds(steps: Sequence[Step]) -> None:
    for before, seen, after in states(steps):
        if any(seen.high[p] > seen.read[p] and p not in after.max_event for p in PARTITIONS):
            assert after.watermark == before.watermark


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_an_idle_partition_has_nothing_unread(steps: Sequence[Step]) -> None:
    for _, seen, after in states(steps):
        assert all(seen.read[p] == seen.high[p] > 0 for p in after.idle)


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn)
def test_all_idle_holds(steps: Sequence[Step]) -> None:
    for before, _, after in states(steps):
        if set(after.max_event) <= after.idle:
            assert after.watermark == before.watermark


@settings(derandomize=True, deadline=None)
@given(steps=steps_drawn, size=st.integers(1, 50), every=st.integers(1, 50))
def test_final_watermark_closes_every_window_seen(steps: Sequence[Step], size: int, every: int) -> None:
    window = SlidingWindows(size=max(size, every), every=min(size, every))
    last = states(steps)[-1][2] if steps else WatermarkState()

    final = compute_final_watermark(last, window, LATENESS)

    for event in last.max_event.values():
        assert final is not None
        assert all(start + window.size + LATENESS.allowed_micros <= final for start, _ in window.assign_windows(event))

"""The watermark: event time up to which a path expects to have seen everything. Pure; time is handed in.

It is the minimum over the active partitions of the newest event time seen in each, less the out-of-orderness, and never
goes back. Every record that parsed moves it but for those of class `future`. A partition

- that never held a record is not active;
- with unread records, of which none has shown an event time yet, holds the watermark where it is;
- with nothing unread for `idle_after`, counted anew from each start, is idle and leaves the minimum until it wakes;
  a record behind an open transaction is unread, so such a partition is not idle.

If all are idle the watermark stays.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Begoli et al., Watermarks in Stream Processing Systems,
    VLDB 2021, section 3 (idle inputs).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutover.definition.model.pipeline import Lateness
from cutover.definition.windows.window_fn import WindowFn, select_last_window
from cutover.records.closing import compute_closing_watermark

MICROS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkState:
    """What is known of event time after an epoch. `WatermarkState(watermark=w, max_event=m)` is a new start."""

    watermark: int | None = None  # microseconds; None: nothing seen yet
    max_event: Mapping[int, int] = field(default_factory=dict)  # partition -> newest event time, microseconds
    idle: frozenset[int] = frozenset()
    # Of this process alone, since idleness counts anew from each start.
    read: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset at the last look
    quiet_since: Mapping[int, float] = field(default_factory=dict)  # partition -> monotonic seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one epoch, or one look at a quiet log, has shown."""

    now: float  # monotonic seconds
    read: Mapping[int, int]  # every partition -> next offset to read
    high: Mapping[int, int]  # every partition -> high watermark of the log, taken after the epoch was read
    max_event: Mapping[int, int] = field(default_factory=dict)  # newest event time of the epoch, without `future`


def advance(state: WatermarkState, observation: Observation, lateness: Lateness) -> WatermarkState:
    """Return what is known after an observation.

    Args:
        state: After the epoch before; of the newest committed epoch at a start.
        observation: The partitions that `seen.high` names are all there are.
        lateness: Out-of-orderness and idle time.

    Returns:
        The next state; its watermark is at or after the one before. `idle` names the partitions left out as idle.
    """
    quiet = _find_quiet_starts(state, observation)
    idle = frozenset(
        p for p, quiet_start in quiet.items() if (observation.now - quiet_start) * MICROS >= lateness.idle_after_micros
    )
    newest_events = _merge_newest(state.max_event, observation.max_event)
    return WatermarkState(
        watermark=_compute_watermark(state.watermark, newest_events, observation, idle, lateness),
        max_event=newest_events,
        idle=idle,
        read=dict(observation.read),
        quiet_since=quiet,
    )


def final_watermark(state: WatermarkState, window: WindowFn, lateness: Lateness) -> int | None:
    """Return the watermark that closes every window seen so far: its end and the allowed lateness are behind it."""
    if not state.max_event:
        return state.watermark
    end = select_last_window(window, max(state.max_event.values())).end
    return max(compute_closing_watermark(window, lateness, end), end if state.watermark is None else state.watermark)


def _compute_watermark(
    previous: int | None,
    newest_events: Mapping[int, int],
    observation: Observation,
    idle: frozenset[int],
    lateness: Lateness,
) -> int | None:
    if any(_has_unread(observation, p) and p not in newest_events for p in observation.high):
        return previous
    active = [newest_events[p] for p in observation.high if p in newest_events and p not in idle]
    if not active:
        return previous
    candidate = min(active) - lateness.out_of_orderness_micros
    return candidate if previous is None else max(previous, candidate)


def _find_quiet_starts(state: WatermarkState, observation: Observation) -> dict[int, float]:
    """Return since when each partition that held a record has had nothing to read; a read record ends the quiet."""
    return {
        p: state.quiet_since.get(p, observation.now)
        if state.read.get(p) == observation.read.get(p)
        else observation.now
        for p, high in observation.high.items()
        if high > 0 and not _has_unread(observation, p)
    }


def _has_unread(observation: Observation, partition: int) -> bool:
    return observation.high[partition] > observation.read.get(partition, 0)


def _merge_newest(previous: Mapping[int, int], current: Mapping[int, int]) -> dict[int, int]:
    return {p: max(times[p] for times in (previous, current) if p in times) for p in sorted({*previous, *current})}

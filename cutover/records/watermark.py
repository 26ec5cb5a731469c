"""The watermark: event time up to which a path expects to have seen everything; it closes windows and makes rows late.

Pure; the time is a parameter. The watermark is the minimum over the active partitions of the newest event time seen in
each, minus the out-of-orderness, and never decreases. All parsed records advance it, except those of class `future`. A
partition

- that never had a record is not active;
- with unread records and no event time seen so far keeps the watermark at its value;
- without unread records for `idle_after`, measured from the start of the process at the earliest, is idle: it is
  excluded from the minimum until it has a record again. Records of an open transaction are unread, so such a partition
  is not idle.

If all partitions are idle, the watermark does not change.

The `end` of a window without a gap is exclusive: the window is closed, and its rows are late, once the watermark has
reached `end + allowed`. The end of a session is inclusive, since the gap is. A row at time t is late once the watermark
has passed `t + gap + allowed`. A row exactly at the end of a session still extends it, and that row is accepted until
the watermark has passed `end + gap + allowed`: only then is the session closed.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.3; Begoli et al., Watermarks in Stream Processing Systems,
    VLDB 2021, section 3 (idle inputs).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.windows.window_fn import WindowFn, select_last_window

MICROS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkState:
    """Event-time progress after an epoch. `WatermarkState(watermark=w, max_event=m)` is the state at a restart."""

    watermark: int | None = None  # microseconds; None: no event time seen yet
    max_event: Mapping[int, int] = field(default_factory=dict)  # partition -> newest event time, microseconds
    idle: frozenset[int] = frozenset()
    # Not recovered at a restart, since idleness is measured per process.
    read: Mapping[int, int] = field(default_factory=dict)  # partition -> next offset at the last observation
    quiet_since: Mapping[int, float] = field(default_factory=dict)  # partition -> monotonic seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Offsets and event times observed after an epoch, or while no records arrive."""

    now: float  # monotonic seconds
    read: Mapping[int, int]  # every partition -> next offset to read
    high: Mapping[int, int]  # every partition -> high watermark of the log, taken after the epoch was read
    max_event: Mapping[int, int] = field(default_factory=dict)  # newest event time of the epoch, excluding `future`


def compute_closing_watermark(window: WindowFn, lateness: Lateness, end: int) -> int:
    """Add the delay of the window kind and the allowed lateness to the end of a window, in microseconds."""
    return end + window.closes_after + lateness.allowed_micros


def find_closed_end(pipeline: Pipeline, watermark: int | None) -> int | None:
    """Return the latest window end that is closed at a watermark, in microseconds; None before the first watermark."""
    return None if watermark is None else watermark - compute_closing_watermark(pipeline.window, pipeline.lateness, 0)


def is_closed_sql(pipeline: Pipeline, watermark: int | None) -> str:
    """Return the DuckDB condition over `window_end` that a window is closed at a watermark."""
    closed_end = find_closed_end(pipeline, watermark)
    return "false" if closed_end is None else f"(epoch_us(window_end) <= {closed_end})"


def compute_late_margin(pipeline: Pipeline) -> int:
    """Return how far past the end of a row's window the watermark is when the row becomes late, in microseconds.

    For sessions this is the window of the single row, before it is merged. A followed job drops it as soon as the
    watermark has reached that end: for Spark the end of a session does not belong to it, although a row there joins it.
    """
    return pipeline.lateness.allowed_micros + (pipeline.window.late_after if pipeline.stream is None else 0)


def advance_watermark(state: WatermarkState, observation: Observation, lateness: Lateness) -> WatermarkState:
    """Advance the watermark by an observation.

    Args:
        state: State after the previous epoch; after a restart that of the latest committed epoch.
        observation: Offsets and event times; `observation.high` contains every partition of the log.
        lateness: Out-of-orderness and idle timeout.

    Returns:
        The next state; its watermark is at least the previous one. `idle` contains the partitions excluded as idle.
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


def compute_final_watermark(state: WatermarkState, window: WindowFn, lateness: Lateness) -> int | None:
    """Return the watermark that closes every window seen so far."""
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
    """Return when each partition that ever had a record ran out of unread records; reading a record restarts it."""
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

"""Time policy: how the watermark advances, which watermark decides lateness, what an epoch's end settles."""

from typing import Protocol

from cutover.definition.model.pipeline import Lateness
from cutover.records.watermark import Observation, WatermarkState, advance_watermark


class TimePolicy(Protocol):
    """Decisions about the time of a driver's epochs."""

    @property
    def settles(self) -> bool:
        """Return whether time passes at an epoch's end; False while more of its moment is to come."""

    @property
    def closes(self) -> bool:
        """Return whether windows close by their allowed lateness; False: no row ever comes too late."""

    @property
    def epoch_ends(self) -> bool:
        """Return whether this is an epoch's end for triggers that fire at one."""

    def advance(self, state: WatermarkState, observed: Observation, lateness: Lateness) -> WatermarkState:
        """Return the watermark state after an observation; the watermark never decreases."""


class EventTimePolicy:
    """The time policy of production: each epoch is a moment, and the newest event times move the watermark."""

    settles = True
    closes = True
    epoch_ends = True

    def advance(self, state: WatermarkState, observed: Observation, lateness: Lateness) -> WatermarkState:
        """Return the watermark state after an observation, as `cutover.records.watermark` computes it."""
        return advance_watermark(state, observed, lateness)


class FollowedTimePolicy:
    """The time policy of a follower: the watermark is the one that the job planned with its batch."""

    settles = True
    epoch_ends = True

    def __init__(self, *, closes: bool) -> None:
        self.closes = closes  # whether the job drops records of closed windows
        self.watermark = 0  # microseconds, planned with the batch that is repeated; Spark begins with 0

    def advance(self, state: WatermarkState, observed: Observation, lateness: Lateness) -> WatermarkState:  # noqa: ARG002 -- every policy's signature
        """Return the watermark of the job; of one that drops nothing, the newest event time, so that windows close."""
        times = [state.max_event, observed.max_event]
        newest = {p: max(time[p] for time in times if p in time) for p in {*state.max_event, *observed.max_event}}
        own = self.watermark if self.closes else self.watermark or None  # records before 1970 are late at once
        candidates = [own, state.watermark, *(() if self.closes else newest.values())]
        watermark = max((time for time in candidates if time is not None), default=None)
        return WatermarkState(watermark=watermark, max_event=newest)


STEADY = EventTimePolicy()

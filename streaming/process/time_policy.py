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


STEADY = EventTimePolicy()

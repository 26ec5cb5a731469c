"""Session windows: rows of a key, each at most a gap after the previous one. They merge.

The gap is inclusive: two rows that are exactly a gap apart belong to one session, so the end of a session belongs to
it. Rows decide where a session starts and ends; if rows may be missing, a range represents every session that touches
it.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 2.2 (MergeWindows).
"""

from dataclasses import dataclass
from typing import ClassVar

from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, WindowFn, WindowSql
from cutover.durations import parse_duration
from cutover.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Sessions(WindowFn):
    """Sessions of a key: rows that are at most `gap` apart; a session ends `gap` after its last row."""

    gap: str  # such as `30 minutes`
    merges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.gap_micros == 0:
            msg = f"Window `Sessions`: gap: expected more than zero, got `{self.gap}`."
            raise DefinitionError(msg)

    @property
    def gap_micros(self) -> int:
        """The gap in microseconds."""
        return parse_duration(self.gap, of="window.gap")

    @property
    def reach(self) -> int:
        """Time from an event to the end of the session of that row alone: the gap."""
        return self.gap_micros

    @property
    def closes_after(self) -> int:
        """Another gap and a microsecond: a row at the very end of a session would extend it by a gap."""
        return self.gap_micros + 1

    @property
    def late_after(self) -> int:
        """One microsecond: the end of a session belongs to it."""
        return 1

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return the session of the row alone; sessions that touch merge in the fold."""
        return (Interval(event_micros, event_micros + self.gap_micros),)

    def starts_sql(self, event: str) -> WindowSql:
        """Return the start of the session of a row alone; sessions that touch merge in the fold."""
        return WindowSql(start=event)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the start plus the gap, in microseconds: the end before any merge."""
        return f"({start} + {self.gap_micros}L)"

    def last_end_before(self, micros: int) -> int:
        """Return the last microsecond before a time: every session that starts before the time touches it."""
        return micros - 1

    def start_after(self, end: int) -> int:
        """Return the first microsecond after a time: every session that ends after the time touches what follows."""
        return end + 1

    def end_of_starts(self, event_micros: int) -> int:
        """Return the first microsecond after the session of a row alone: a session that starts by its end merges."""
        return event_micros + self.gap_micros + 1

    def event_range(self, interval: Interval) -> Interval:
        """Return a session with the gap before it and its end: a row there would join the session."""
        return Interval(interval.start - self.gap_micros, interval.end + 1)

    def describe(self) -> list[str | int]:
        """Return kind and gap in microseconds; hashed into the result fingerprint."""
        return ["sessions", self.gap_micros]


Window = AlignedWindowFn | Sessions
"""Window of a definition: the batch path recomputes aligned windows individually, and sessions from a time onwards."""


def can_merge(interval: Interval, second: Interval) -> bool:
    """Return whether two sessions are one: their ends may meet, since the gap is inclusive."""
    return interval.start <= second.end and second.start <= interval.end

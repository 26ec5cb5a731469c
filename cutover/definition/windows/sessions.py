"""Sessions: rows of a key that follow one another at a distance of at most a gap. They merge.

The gap is inclusive: two rows that are exactly a gap apart are of one session, so the end of a session still belongs to
it. It begins and ends where its rows say: where rows may be missing, a range stands for every session that touches it.

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
    """Rows of a key that follow one another at a distance of at most `gap`, and `gap` behind the last of them."""

    gap: str  # such as `30 minutes`
    merges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.gap_micros == 0:
            msg = f"Window `Sessions`: gap: expected more than nothing, got `{self.gap}`."
            raise DefinitionError(msg)

    @property
    def gap_micros(self) -> int:
        """The gap in microseconds."""
        return parse_duration(self.gap, of="window.gap")

    @property
    def reach(self) -> int:
        """How long after an event time the session of that row alone ends: the gap."""
        return self.gap_micros

    @property
    def closes_after(self) -> int:
        """A further gap, for a row at the very end of a session would still join it, and so reach beyond it."""
        return self.gap_micros + 1

    @property
    def late_after(self) -> int:
        """A microsecond: the end of a session still belongs to it."""
        return 1

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """One session of the row alone: rows that touch merge where they are folded."""
        return (Interval(event_micros, event_micros + self.gap_micros),)

    def starts_sql(self, event: str) -> WindowSql:
        """Return the start of the session of a row alone: they merge where they are folded."""
        return WindowSql(start=event)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Add the gap to the start, microseconds: the end before anything merged."""
        return f"({start} + {self.gap_micros}L)"

    def last_end(self, before: int) -> int:
        """Return the last moment before a time: a session that begins before it touches that moment."""
        return before - 1

    def start_after(self, end: int) -> int:
        """Return the first moment after a time: a session that ends after it touches what follows."""
        return end + 1

    def end_of_starts(self, event_micros: int) -> int:
        """Return the end of the session of a row alone, which is still of it: to touch it is to be touched."""
        return event_micros + self.gap_micros + 1

    def event_range(self, one: Interval) -> Interval:
        """Return a session and the gap before it: a row there would join it."""
        return Interval(one.start - self.gap_micros, one.end + 1)

    def describe(self) -> list[str | int]:
        """Kind and gap in microseconds; hashed into the result fingerprint."""
        return ["sessions", self.gap_micros]


Window = AlignedWindowFn | Sessions
"""What a definition's window is: the batch path recomputes aligned windows one by one, and sessions from a time on."""


def touch(one: Interval, other: Interval) -> bool:
    """Return whether two sessions are one: their ends may meet, since the gap is inclusive."""
    return one.start <= other.end and other.start <= one.end

"""Fixed and sliding windows: as long as each other, one beginning at each multiple of a period.

Source:
    Akidau et al., The Dataflow Model, VLDB 2015, section 1.2. Slices: Li et al., No Pane, No Gain, SIGMOD Record 34(1),
    2005, section 3 (there a slice is called a pane).
"""

from dataclasses import dataclass
from math import gcd

from cutover.definition.windows.window_fn import AlignedWindowFn, Interval, WindowSql
from cutover.durations import LONGEST_DAYS, MICROSECONDS, parse_duration
from cutover.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindows(AlignedWindowFn):
    """Windows of `size` that begin at each multiple of `every` since 1970 in UTC, or `offset` later; microseconds.

    A row falls into `ceil(size / every)` windows at most; `size == every` is a fixed window.
    """

    size: int
    every: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.every <= 0 or self.every > self.size:
            msg = f"Window: expected 0 < every <= size, got size {self.size} us, every {self.every} us."
            raise DefinitionError(msg)
        if self.size > LONGEST_DAYS * MICROSECONDS["day"]:
            msg = f"Window: expected a size of at most {LONGEST_DAYS} days, got {self.size // MICROSECONDS['day']}."
            raise DefinitionError(msg)
        if not 0 <= self.offset < self.every:
            msg = f"Window: expected 0 <= offset < every, got offset {self.offset} us, every {self.every} us."
            raise DefinitionError(msg)

    @property
    def most(self) -> int:
        """How many windows hold one event time at most."""
        return -(-self.size // self.every)

    @property
    def least(self) -> int:
        """How many windows hold one event time at least."""
        return self.size // self.every

    @property
    def slice_micros(self) -> int | None:
        """Length of the stretches whose rows all fall into the same windows; None: a row falls into one window."""
        return gcd(self.size, self.every) if self.most > 1 else None

    @property
    def reach(self) -> int:
        """How long after an event time its last window ends at most: the size."""
        return self.size

    def intervals(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that hold an event time, ascending."""
        into = (event_micros - self.offset) % self.every
        last = event_micros - into
        first = last - ((self.size - 1 - into) // self.every) * self.every
        return tuple(Interval(start, start + self.size) for start in range(first, last + 1, self.every))

    def starts_sql(self, event: str) -> WindowSql:
        """Return what `intervals` says; all arithmetic floors, so that times before 1970 are like all others."""
        into = f"pmod({event} - {self.offset}L, {self.every}L)"
        start = f"({event} - {into})"
        if self.most == 1:
            return WindowSql(start=start)
        back = f"(({self.size - 1}L - {into}) DIV {self.every}L) * {self.every}L"
        return WindowSql(start=start, back=back, every=self.every)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Add the size to the start, microseconds."""
        return f"({start} + {self.size}L)"

    def slice_start_sql(self, event: str) -> str:
        """Return how Spark computes the start of the slice that holds an event time: bigint."""
        return f"({event} - pmod({event} - {self.offset}L, {self.slice_micros}L))"

    def following(self, start: int) -> int:
        """Add `every`, microseconds."""
        return start + self.every

    def describe(self) -> list[str | int]:
        """Size, period and offset if there is one, in microseconds; hashed into the result fingerprint."""
        return [self.size, self.every, *([self.offset] if self.offset else [])]


def Fixed(  # noqa: N802 -- reads as a value
    *, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0, offset: str = "0 seconds"
) -> SlidingWindows:
    """Return windows without gap or overlap, each beginning `offset` after a multiple of its size.

    Raises:
        DefinitionError: The size is nothing, or the offset is not shorter than it.
    """
    counts = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    size = sum(count * MICROSECONDS[unit] for unit, count in counts.items())
    return SlidingWindows(size=size, every=size, offset=parse_duration(offset, of="window.offset"))


def Sliding(*, size: str, every: str, offset: str = "0 seconds") -> SlidingWindows:  # noqa: N802 -- reads as a value
    """Return windows of a size that begin at each multiple of a period, or `offset` later; all such as `10 minutes`.

    Raises:
        DefinitionError: A text is no duration, or not `0 < every <= size` and `offset < every`.
    """
    return SlidingWindows(
        size=parse_duration(size, of="window.size"),
        every=parse_duration(every, of="window.every"),
        offset=parse_duration(offset, of="window.offset"),
    )

"""Fixed and sliding windows: windows of one size, one of which starts at each multiple of a period.

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
    """Windows of `size` that start at each multiple of `every` since 1970 in UTC, plus `offset`; microseconds.

    A row belongs to at most `ceil(size / every)` windows; `size == every` is a fixed window.
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
    def max_windows(self) -> int:
        """Maximum number of windows that contain one event time."""
        return -(-self.size // self.every)

    @property
    def min_windows(self) -> int:
        """Minimum number of windows that contain one event time."""
        return self.size // self.every

    @property
    def slice_micros(self) -> int | None:
        """Length of a slice, whose rows all belong to the same windows; None if each row belongs to one window."""
        return gcd(self.size, self.every) if self.max_windows > 1 else None

    @property
    def reach(self) -> int:
        """Upper bound of the time from an event to the end of its last window: the size."""
        return self.size

    def assign_windows(self, event_micros: int) -> tuple[Interval, ...]:
        """Return all windows that contain an event time, ascending."""
        since_start = (event_micros - self.offset) % self.every
        last_start = event_micros - since_start
        first_start = last_start - ((self.size - 1 - since_start) // self.every) * self.every
        return tuple(Interval(start, start + self.size) for start in range(first_start, last_start + 1, self.every))

    def starts_sql(self, event: str) -> WindowSql:
        """Return the starts of `assign_windows` in SQL; all arithmetic floors, so times before 1970 work as well."""
        since_start = f"pmod({event} - {self.offset}L, {self.every}L)"
        start = f"({event} - {since_start})"
        if self.max_windows == 1:
            return WindowSql(start=start)
        span = f"(({self.size - 1}L - {since_start}) DIV {self.every}L) * {self.every}L"
        return WindowSql(start=start, span=span, every=self.every)

    def end_sql(self, start: str, event: str) -> str:  # noqa: ARG002 -- every window's signature
        """Return the start plus the size, in microseconds."""
        return f"({start} + {self.size}L)"

    def slice_start_sql(self, event: str) -> str:
        """Return Spark SQL for the start of the slice that contains an event time: bigint."""
        return f"({event} - pmod({event} - {self.offset}L, {self.slice_micros}L))"

    def next_start(self, start: int) -> int:
        """Add the period `every` to the start of a window; microseconds."""
        return start + self.every

    def describe(self) -> list[str | int]:
        """Return size, period and any offset, in microseconds; hashed into the result fingerprint."""
        return [self.size, self.every, *([self.offset] if self.offset else [])]


def Fixed(  # noqa: N802 -- reads as a value
    *, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0, offset: str = "0 seconds"
) -> SlidingWindows:
    """Make windows without gap or overlap, each of which starts `offset` after a multiple of its size.

    Raises:
        DefinitionError: The size is zero, or the offset is not shorter than the size.
    """
    counts = {"day": days, "hour": hours, "minute": minutes, "second": seconds}
    size = sum(count * MICROSECONDS[unit] for unit, count in counts.items())
    return SlidingWindows(size=size, every=size, offset=parse_duration(offset, of="window.offset"))


def Sliding(*, size: str, every: str, offset: str = "0 seconds") -> SlidingWindows:  # noqa: N802 -- reads as a value
    """Make windows of a size, one of which starts `offset` after each multiple of a period; all such as `10 minutes`.

    Raises:
        DefinitionError: A text is not a duration, or `0 < every <= size` and `offset < every` do not hold.
    """
    return SlidingWindows(
        size=parse_duration(size, of="window.size"),
        every=parse_duration(every, of="window.every"),
        offset=parse_duration(offset, of="window.offset"),
    )

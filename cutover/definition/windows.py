"""Where in event time: fixed and sliding windows, half-open `[start, end)`, aligned to the Unix epoch in UTC."""

from dataclasses import dataclass

from cutover.definition.durations import LONGEST_DAYS, MICROSECONDS
from cutover.errors import DefinitionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """Windows of `size` that begin at each multiple of `every` (both texts such as `1 hour`, resolved at once).

    A row falls into `ceil(size / every)` windows at most; `size == every` is a fixed window.
    """

    size: int  # microseconds
    every: int  # microseconds

    def __post_init__(self) -> None:
        if self.size <= 0 or self.every <= 0 or self.every > self.size:
            msg = f"Window: expected 0 < every <= size, got size {self.size} us, every {self.every} us."
            raise DefinitionError(msg)
        if self.size > LONGEST_DAYS * MICROSECONDS["day"]:
            msg = f"Window: expected a size of at most {LONGEST_DAYS} days, got {self.size // MICROSECONDS['day']}."
            raise DefinitionError(msg)

    def starts(self, event_micros: int) -> tuple[int, ...]:
        """Return the starts (microseconds) of all windows that hold an event time, ascending."""
        last = event_micros - event_micros % self.every
        first = last - ((self.size - 1 - event_micros % self.every) // self.every) * self.every
        return tuple(range(first, last + 1, self.every))


def _micros(days: int, hours: int, minutes: int, seconds: int) -> int:
    return (
        days * MICROSECONDS["day"]
        + hours * MICROSECONDS["hour"]
        + minutes * MICROSECONDS["minute"]
        + seconds * MICROSECONDS["second"]
    )


def Fixed(*, days: int = 0, hours: int = 0, minutes: int = 0, seconds: int = 0) -> Sliding:  # noqa: N802 -- reads as a value
    """Return windows that follow one another without gap or overlap."""
    size = _micros(days, hours, minutes, seconds)
    return Sliding(size=size, every=size)

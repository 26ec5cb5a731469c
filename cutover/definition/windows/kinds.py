"""All kinds of windows: their name in a scenario file, their constructor from texts, an example of a definition."""

from collections.abc import Callable
from dataclasses import dataclass

from cutover.definition.windows.aligned import Daily, Global, Monthly, Sliding, SlidingWindows
from cutover.definition.windows.sessions import Sessions
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.durations import parse_duration


@dataclass(frozen=True, slots=True)
class WindowKind:
    """Kind of window, as scenario files and definitions name it."""

    name: str
    make: Callable[..., AlignedWindowFn | Sessions]  # keywords; texts and whole numbers; raises DefinitionError
    example: str  # in a definition


def _make_fixed(*, size: str, offset: str = "0 seconds") -> SlidingWindows:
    """Make consecutive windows of one size."""
    micros = parse_duration(size, of="size")
    return SlidingWindows(size=micros, every=micros, offset=parse_duration(offset, of="offset"))


KINDS = (
    WindowKind("fixed", _make_fixed, "Fixed(hours=1)"),
    WindowKind("sliding", Sliding, 'Sliding(size="1 hour", every="10 minutes")'),
    WindowKind("daily", Daily, 'Daily(zone="Europe/Berlin")'),
    WindowKind("monthly", Monthly, 'Monthly(zone="Europe/Berlin")'),
    WindowKind("sessions", Sessions, 'Sessions("30 minutes")'),
    WindowKind("global", Global, "Global()"),
)

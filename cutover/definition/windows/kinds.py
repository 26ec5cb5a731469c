"""Every kind of window there is: its name in a scenario file, how it is made from texts, how a definition writes it."""

from collections.abc import Callable
from dataclasses import dataclass

from cutover.definition.windows.all_time import Global
from cutover.definition.windows.calendar import Daily
from cutover.definition.windows.monthly import Monthly
from cutover.definition.windows.sessions import Sessions
from cutover.definition.windows.sliding import Sliding, SlidingWindows
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.durations import parse_duration


@dataclass(frozen=True, slots=True)
class WindowKind:
    """A kind of window."""

    name: str
    make: Callable[..., AlignedWindowFn | Sessions]  # by keyword; texts but for whole numbers; raises DefinitionError
    example: str  # in a definition


def _of_size(*, size: str, offset: str = "0 seconds") -> SlidingWindows:
    """Return windows of a size, one after the other."""
    micros = parse_duration(size, of="size")
    return SlidingWindows(size=micros, every=micros, offset=parse_duration(offset, of="offset"))


KINDS = (
    WindowKind("fixed", _of_size, "Fixed(hours=1)"),
    WindowKind("sliding", Sliding, 'Sliding(size="1 hour", every="10 minutes")'),
    WindowKind("daily", Daily, 'Daily(zone="Europe/Berlin")'),
    WindowKind("monthly", Monthly, 'Monthly(zone="Europe/Berlin")'),
    WindowKind("sessions", Sessions, 'Sessions("30 minutes")'),
    WindowKind("global", Global, "Global()"),
)

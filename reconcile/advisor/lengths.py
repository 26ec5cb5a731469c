"""Lengths of time that people set: whole units as large as the window allows."""

from cutover.definition.windows.window_fn import WindowFn
from cutover.durations import MICROSECONDS

UNITS = tuple(sorted(MICROSECONDS.values(), reverse=True))
"""Day, hour, minute, second, millisecond, in microseconds."""

_LONGER = 10
"""A whole unit may lengthen a wait by one part in this many; otherwise the next smaller unit is used."""


def find_unit(window: WindowFn) -> int:
    """Return the largest unit that is not longer than a window, or than the distance between two that overlap."""
    length = window.slice_micros or window.reach or UNITS[0]
    return next((unit for unit in UNITS if unit <= length), UNITS[-1])


def find_smaller_unit(unit: int) -> int:
    """Return the next smaller unit; for the smallest one the unit itself."""
    place = UNITS.index(unit)
    return UNITS[min(place + 1, len(UNITS) - 1)]


def round_up(minimum: int, unit: int) -> int:
    """Round a length up to whole units, or to the next smaller unit if the larger one would lengthen it too much.

    Args:
        minimum: Microseconds; 0 or less needs no time.
        unit: Unit of the windows.
    """
    if minimum <= 0:
        return 0
    length = -(-minimum // unit) * unit
    if (length - minimum) * _LONGER <= minimum:
        return length
    smaller = find_smaller_unit(unit)
    return -(-minimum // smaller) * smaller

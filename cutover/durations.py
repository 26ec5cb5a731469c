"""Durations as people write them: `"30 minutes"`, in microseconds inside."""

import re

from cutover.errors import DefinitionError

MICROSECONDS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
LONGEST_DAYS = 36_500
"""A hundred years: behind the last event time that is taken, this still is a time that every engine can write."""

_TEXT = re.compile(r"^\s*([0-9]{1,18})\s*(millisecond|second|minute|hour|day)s?\s*$")


def parse_duration(text: object, *, of: str) -> int:
    """Parse a text such as `30 minutes` into microseconds.

    Args:
        text: A whole number and a unit: milliseconds, seconds, minutes, hours or days; as definitions have it, which
            nobody has checked.
        of: What the duration is for; named in the error.

    Raises:
        DefinitionError: It is no text of this form, or the duration is longer than a hundred years.
    """
    match = _TEXT.match(text) if isinstance(text, str) else None
    if match is None:
        msg = f"`{of}`: expected a whole number and a unit, such as `30 minutes`, got `{str(text)[:80]}`."
        raise DefinitionError(msg)
    micros = int(match[1]) * MICROSECONDS[match[2]]
    if micros > LONGEST_DAYS * MICROSECONDS["day"]:
        msg = f"`{of}`: expected at most {LONGEST_DAYS} days, got `{match[0][:80]}`."
        raise DefinitionError(msg)
    return micros


def format_duration(micros: int) -> str:
    """Return a length of time as `parse_duration` reads it, in the largest unit that it is whole in."""
    units = sorted(MICROSECONDS.items(), key=lambda unit: -unit[1])
    unit, size = next((one for one in units if micros and micros % one[1] == 0), ("second", MICROSECONDS["second"]))
    count = micros // size
    return f"{count} {unit}{'' if count == 1 else 's'}"

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
_TEXT = re.compile(r"^\s*(\d+)\s*(millisecond|second|minute|hour|day)s?\s*$")


def parse_duration(text: str, *, of: str) -> int:
    """Return the microseconds of a text such as `30 minutes`.

    Args:
        text: A whole number and a unit: milliseconds, seconds, minutes, hours or days.
        of: What the duration is for; named in the error.

    Raises:
        DefinitionError: The text is not of this form.
    """
    match = _TEXT.match(text)
    if match is None:
        msg = f"`{of}`: expected a whole number and a unit, such as `30 minutes`, got `{text}`."
        raise DefinitionError(msg)
    return int(match[1]) * MICROSECONDS[match[2]]

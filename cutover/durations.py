"""Durations: texts such as `"30 minutes"`, and their values in microseconds."""

import re
from functools import lru_cache

from cutover.counts import count_noun
from cutover.errors import DefinitionError

MICROSECONDS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
LONGEST_DAYS = 36_500
"""A hundred years; added to the latest valid event time, the result is still valid in every engine."""

_SHORT = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
_PART = r"([0-9]{1,18})\s*((?:millisecond|second|minute|hour|day)s?|ms|s|min|h|d)"
_TEXT = re.compile(rf"^\s*{_PART}(?:\s+{_PART})*\s*$")


def parse_duration(text: object, *, of: str) -> int:
    """Parse a text such as `30 minutes` into microseconds.

    Args:
        text: Integers with units, in milliseconds, seconds, minutes, hours or days, or as reports print them,
            `1 d 2 h`, `30 min`. Not validated before, since it comes from a definition.
        of: Name of the field, for the error.

    Raises:
        DefinitionError: The text does not have this form, or the duration is longer than a hundred years.
    """
    micros = _compute_micros(text) if isinstance(text, str) else None
    if micros is None:
        msg = f"`{of}`: expected a whole number and a unit, such as `30 minutes`, got `{str(text)[:80]}`."
        raise DefinitionError(msg)
    if micros > LONGEST_DAYS * MICROSECONDS["day"]:
        msg = f"`{of}`: expected at most {LONGEST_DAYS} days, got `{str(text)[:80]}`."
        raise DefinitionError(msg)
    return micros


@lru_cache(maxsize=1_024)  # folds in plain Python ask for each record
def _compute_micros(text: str) -> int | None:
    """Compute the microseconds of a text; None: it does not have the form of a duration."""
    match = _TEXT.match(text)
    if match is None:
        return None
    return sum(
        int(count) * MICROSECONDS[_SHORT.get(unit) or unit.removesuffix("s")]
        for count, unit in re.findall(_PART, match[0])
    )


def format_duration(micros: int) -> str:
    """Format a duration for `parse_duration`, in the largest unit of which it is a multiple."""
    units = sorted(MICROSECONDS.items(), key=lambda unit: -unit[1])
    unit, size = next((unit for unit in units if micros and micros % unit[1] == 0), ("second", MICROSECONDS["second"]))
    return count_noun(micros // size, unit).replace(",", "")


def shorten_duration(micros: int) -> str:
    """Format a duration exactly in the short form of reports, which `parse_duration` accepts: `1 d 2 h`, `30 min`."""
    parts, remainder = [], micros
    for short, unit in reversed(_SHORT.items()):
        count, remainder = divmod(remainder, MICROSECONDS[unit])
        if count:
            parts.append(f"{count} {short}")
    return " ".join(parts) or "0 s"


def describe_length(seconds: float, *, space: str = " ") -> str:
    """Describe a length of time for people, in its two largest units: `1 d 2 h`, `30 min`, `2.5 s`, `4 ms`.

    Args:
        seconds: Shown with tenths below 10 s, and in milliseconds below 0.05 s.
        space: Separator between a number and its unit.
    """
    if 0 < abs(seconds) < 0.05:  # noqa: PLR2004 -- rounds to less than a tenth of a second
        return f"{seconds * 1_000:.3g}{space}ms"
    if abs(seconds) < 10:  # noqa: PLR2004 -- below it, tenths matter
        return f"{seconds:.1f}".removesuffix(".0") + f"{space}s"
    parts, remainder = [], round(abs(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, remainder = divmod(remainder, size)
        if amount:
            parts.append(f"{amount}{space}{unit}")
    return f"{'-' if seconds < 0 else ''}{' '.join(parts[:2])}"

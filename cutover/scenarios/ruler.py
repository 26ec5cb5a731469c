"""Axis ticks at round times, in the style of a scenario."""

from cutover.durations import MICROSECONDS
from cutover.scenarios.reading.times import Style, write

_SECOND, _MINUTE, _HOUR, _DAY = (MICROSECONDS[name] for name in ("second", "minute", "hour", "day"))
_STEPS = (
    *(10**power * factor for power in range(6) for factor in (1, 2, 5)),  # microseconds, up to half a second
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * count for count in (1, 2, 3, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 28, 91, 182, 365)),
)


def ticks(low: int, high: int, limit: int, style: Style) -> list[tuple[int, str]]:
    """Return up to about `limit` round times from `low` to `high` (microseconds), each with its text."""
    step = next(
        (step for step in _STEPS if (high - low) // step < limit), _DAY * 365 * ((high - low) // _DAY // limit + 1)
    )
    start = -(-low // step) * step
    return [(at, _text(at, step, style)) for at in range(start, high + 1, step)]


def _text(at: int, step: int, style: Style) -> str:
    text = write(at, style)
    if style is Style.DATE:
        day, _, clock = text.removesuffix("Z").partition("T")
        return day if step >= _DAY else f"{day[5:]} {clock[:5]}" if step >= _MINUTE else clock
    return text.removesuffix(":00") if step >= _MINUTE else text

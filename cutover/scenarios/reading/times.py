"""Times of a scenario: by clock (`12:05:19`), by date (`2013-03-10T02:30:00Z`), or without end (`+inf`)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from cutover.definition.model.times import ISO_TIMESTAMP
from cutover.definition.windows.window_fn import EARLIEST, FOREVER, LATEST
from cutover.durations import MICROSECONDS
from cutover.errors import DefinitionError
from cutover.timestamps import from_micros, to_micros

_CLOCK = re.compile(r"(-?)([0-9]{1,6}):([0-5][0-9])(?::([0-5][0-9])(?:[.]([0-9]{1,6}))?)?")
_INFINITE = {"-inf": -FOREVER, "+inf": FOREVER, "inf": FOREVER}
_MICROSECOND = timedelta(microseconds=1)


class Style(Enum):
    """Style in which a scenario writes its times and panes."""

    CLOCK = auto()  # hours, minutes and seconds after 1970-01-01T00:00:00Z; the hours may be negative or beyond 24
    DATE = auto()


@dataclass(frozen=True, slots=True)
class ScenarioTime:
    """Parsed time."""

    micros: int
    style: Style | None  # None: without end


def read(text: object, *, of: str) -> ScenarioTime:
    """Parse `12:03`, ISO 8601 or an infinite time.

    Raises:
        DefinitionError: The text is not a time, or the time is before the year 1000 or after 8999.
    """
    if isinstance(text, str) and text in _INFINITE:
        return ScenarioTime(_INFINITE[text], None)
    time = _read(text) if isinstance(text, str) else None
    if time is None or not EARLIEST <= time.micros < LATEST:
        msg = f"{of}: expected a time such as `12:05:19`, `2013-03-10T02:30:00Z`, got {_quote_text(text)}."
        raise DefinitionError(msg)
    return time


def write(micros: int, style: Style) -> str:
    """Write a time in the scenario's style; `-inf` or `+inf` outside the supported years."""
    if abs(micros) == FOREVER or micros in {EARLIEST, LATEST}:
        return "-inf" if micros < 0 else "+inf"
    if style is Style.DATE:
        return from_micros(micros).isoformat().replace("+00:00", "Z")
    seconds, fraction = divmod(abs(micros), MICROSECONDS["second"])
    minutes, second = divmod(seconds, 60)
    text = f"{'-' if micros < 0 else ''}{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _read(text: str) -> ScenarioTime | None:
    match = _CLOCK.fullmatch(text)
    if match is not None:
        sign, hours, minutes, seconds, fraction = match.groups()
        total_seconds = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
        micros = total_seconds * MICROSECONDS["second"] + int(f"{fraction or '':0<6}")
        return ScenarioTime(-micros if sign else micros, Style.CLOCK)
    if not re.fullmatch(ISO_TIMESTAMP, text):
        return None
    try:
        parsed = datetime.fromisoformat(text)
        moment = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return ScenarioTime(to_micros(moment), Style.DATE)
    except (ValueError, OverflowError):
        return None


def _quote_text(text: object) -> str:
    return f"`{text[:80]}`" if isinstance(text, str) else type(text).__name__

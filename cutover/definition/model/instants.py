"""Times as records write them: what a `timestamp` of the schema takes, for whoever reads or sends a record."""

import re
from datetime import UTC, datetime
from typing import Literal

from cutover.definition.windows.window_fn import EARLIEST, LATEST
from cutover.timestamps import to_micros

ISO_TIMESTAMP = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?"
)
"""The whole text of a timestamp. Without a zone it is UTC; digits after the microsecond are cut off; a date alone
is its midnight, UTC."""

UNITS = {"seconds": 1_000_000, "millis": 1_000}
"""Microseconds of one unit of a whole number."""

_ISO = re.compile(ISO_TIMESTAMP)
_REST = re.compile(r"(?:[.]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))?")


def micros_of(given: object, time_format: Literal["iso", "seconds", "millis"]) -> int:
    """Return a time in microseconds since 1970, from what stands in the JSON.

    Args:
        given: A text (`iso`) or a whole number (`seconds`, `millis`).
        time_format: How the definition says that times are written.

    Raises:
        ValueError: The parsers would call the record malformed.
    """
    if time_format == "iso":
        return iso_micros(given) if isinstance(given, str) else _refuse()
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    return _in_range(given * UNITS[time_format]) if is_whole else _refuse()  # type: ignore[operator]  # a whole number


def iso_micros(text: str) -> int:
    """Return a time of ISO 8601 in microseconds since 1970; without a zone it is UTC.

    Raises:
        ValueError: It is written in another way, there is no such time, or it is not from the years 1000 to 8999.
    """
    if not _ISO.fullmatch(text):
        _refuse()
    whole = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    match = _REST.fullmatch(text[19:])
    fraction, sign, hours, minutes = match.groups() if match else (None, None, None, None)
    ahead = (int(hours or 0) * 60 + int(minutes or 0)) * (-1 if sign == "-" else 1)
    micros = to_micros(whole) + int(f"{fraction or '0':0<6}"[:6])
    return _in_range(micros - ahead * 60_000_000)


def _in_range(micros: int) -> int:
    return micros if EARLIEST <= micros < LATEST else _refuse()


def _refuse() -> int:
    msg = "not a time"
    raise ValueError(msg)

"""Names, for messages, of the forms of time that no `timestamp` takes: what stands there instead."""

import re

YEARS_2000_TO_2100 = (946_684_800, 4_102_444_800)
"""Seconds since 1970 that a number which is called a time lies between."""

_UNIX = (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000))
_NUMBER = re.compile(r"[0-9]{9,20}([.][0-9]+)?")
_ISO_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<between>[T ]|t)[0-9]{2}:[0-9]{2}(?P<seconds>:[0-9]{2})?"
    r"(?:(?P<point>[.,])(?P<digits>[0-9]+))?(?P<blank> *)"
    r"(?P<zone>Z|z|[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z]+(?:/[A-Za-z_]+)*)?(?P<brackets>\[[^\]]*\])?"
)
_CLOCK = r"(?P<clock>[ T,]+[0-9]{1,2}:[0-9]{2}(?P<seconds>:[0-9]{2})?(?P<fraction>[.][0-9]+)?(?P<half> ?[AaPp][Mm])?)?"
_NUMBERS = re.compile(rf"(?P<first>[0-9]{{1,2}})(?P<mark>[/.-])(?P<second>[0-9]{{1,2}})(?P=mark)[0-9]{{4}}{_CLOCK}")
_YEAR_FIRST = re.compile(rf"[0-9]{{4}}(?P<mark>[/.])[0-9]{{1,2}}(?P=mark)[0-9]{{1,2}}{_CLOCK}")
_NAMED = (
    (re.compile(r"[0-9]{8}T?[0-9]{6}Z?"), "yyyyMMdd'T'HHmmss"),
    (re.compile(r"[0-9]{1,2}/[A-Za-z]{3}/[0-9]{4}:[0-9:]{8} [+-][0-9]{4}"), "dd/MMM/yyyy:HH:mm:ss Z"),
    (re.compile(r"[A-Za-z]{3}, [0-9]{1,2} [A-Za-z]{3} [0-9]{4} [0-9:]{8}.*"), "EEE, dd MMM yyyy HH:mm:ss zzz"),
    (re.compile(r"[0-9]{1,2}[- ][A-Za-z]{3}[- ][0-9]{4}.*"), "dd-MMM-yyyy HH:mm:ss"),
)
_LAST_MONTH = 12


def name_time_form(text: str, *, is_number: bool) -> str | None:
    """Return what form of time a value has that is no ISO 8601 as records write it; None if it looks like no time.

    Args:
        text: Value as it is written.
        is_number: Whether it is a JSON number.
    """
    if _NUMBER.fullmatch(text):
        return _name_unix_form(text, is_number=is_number)
    return None if is_number else _name_iso_variant(text) or _name_pattern(text)


def _name_unix_form(text: str, *, is_number: bool) -> str | None:
    whole, _, fraction = text.partition(".")
    low, high = YEARS_2000_TO_2100
    for unit, per_second in _UNIX:
        if low * per_second <= int(whole) < high * per_second:
            name = f"Unix {unit}" + (" with a fraction" if fraction else "")
            return name if is_number else f"{name} as text"
    return None


def _name_iso_variant(text: str) -> str | None:
    match = _ISO_LIKE.fullmatch(text)
    if match is None:
        return None
    zone = match["zone"] or ""
    offset = zone[1:] if zone[:1] in {"+", "-"} else ""
    variants = {
        "a lower-case `t` or `z`": match["between"] == "t" or zone == "z",
        "no seconds": match["seconds"] is None,
        "a comma before the fraction": match["point"] == ",",
        "more than 9 digits after the second": len(match["digits"] or "") > 9,  # noqa: PLR2004 -- nanoseconds
        "a blank before the zone": bool(match["blank"] and zone),
        f"an offset without minutes (`{zone}`)": 0 < len(offset) <= len("00"),
        f"an offset without a colon (`{zone}`)": len(offset) > len("00") and ":" not in offset,
        f"a zone by name (`{zone}`)": zone not in {"", "Z", "z"} and not offset,
        "a zone by name in brackets": match["brackets"] is not None,
    }
    found = [name for name, holds in variants.items() if holds]
    return f"ISO 8601 with {' and '.join(found)}" if found else None


def _name_pattern(text: str) -> str | None:
    for shape, pattern in _NAMED:
        if shape.fullmatch(text):
            return f"pattern `{pattern}`"
    match = _YEAR_FIRST.fullmatch(text)
    if match:
        return f"pattern `yyyy{match['mark']}MM{match['mark']}dd{_clock_pattern(match)}`"
    match = _NUMBERS.fullmatch(text)
    return _name_day_and_month(match) if match else None


def _name_day_and_month(match: re.Match[str]) -> str:
    mark, clock = match["mark"], _clock_pattern(match)
    american, other = f"MM{mark}dd{mark}yyyy{clock}", f"dd{mark}MM{mark}yyyy{clock}"
    if int(match["second"]) > _LAST_MONTH or (match["half"] and int(match["first"]) <= _LAST_MONTH):
        return f"pattern `{american}`"
    if int(match["first"]) > _LAST_MONTH or mark == ".":
        return f"pattern `{other}`"
    return f"pattern `{american}` or `{other}`"


def _clock_pattern(match: re.Match[str]) -> str:
    if not match["clock"]:
        return ""
    clock = "hh:mm" if match["half"] else "HH:mm"
    return (
        f" {clock}{':ss' if match['seconds'] else ''}{'.SSS' if match['fraction'] else ''}"
        f"{' a' if match['half'] else ''}"
    )

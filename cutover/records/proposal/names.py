"""Meanings of columns by their names: times, identifiers, and numbers whose sum has no meaning."""

import re
from collections.abc import Sequence

TIME_WORDS = ("time", "date", "ts", "_at", "created", "modified", "occurred", "expire")
LOG_WORDS = ("arriv", "receiv", "ingest", "log", "process", "publish", "produced", "sent", "load")
"""Parts of names of columns with the time at which a record reached the log."""

EVENT_WORDS = ("event", "occur", "happen", "schedul", "creat", "start", "order", "click", "time", "date", "ts", "at")
"""Parts of names of event times, the best first."""

_IDS = """
    id ids seq sequence number no nr num uuid guid key code zip zipcode postcode plz phone
    row index idx line version year month day weekday hour minute port isbn ean sku
"""
_IDENTIFIERS = frozenset(("id", "ids", "key", "code", "uuid", "guid", "zip", "zipcode", "postcode", "plz", "sku"))
_ENTITIES = """
    customer client user account store shop station device sensor product vehicle driver merchant seller buyer member
"""
_LEVELS = """
    delay duration latency lag wait elapsed age took gap offset
    rate ratio share percent pct percentage temperature temp price score speed lat lon lng latitude longitude
    altitude avg average mean median min max humidity pressure level balance stock rating rank magnitude mag depth
    coordinate voltage cpu usage utilization
"""
_ID_WORDS = frozenset(_IDS.split())
_ENTITY_WORDS = frozenset(_ENTITIES.split())
_LEVEL_WORDS = frozenset(_LEVELS.split())


def is_time_name(name: str) -> bool:
    """Return whether a column is a time, judging by words such as `date`."""
    lower = name.lower()
    return lower == "at" or any(word in lower for word in (*TIME_WORDS, *LOG_WORDS))


def is_identifier_name(name: str) -> bool:
    """Return whether a column holds identifiers, which are texts even if all of them are numbers with a fraction."""
    words = _split_name(name)
    return bool(words) and words[-1] in _IDENTIFIERS


def is_id_name(name: str) -> bool:
    """Return whether a column identifies something, or is another number that is neither summed nor averaged."""
    return bool(_ID_WORDS & set(_split_name(name)))


def is_reference_name(name: str) -> bool:
    """Return whether a number of this name refers to something, such as `customer` or `customer_id`, or `product_1`.

    A number that an entity has, such as `product_price` or `store_sales`, does not.
    """
    words = _split_name(name)
    return bool(_ID_WORDS & set(words)) or bool(words and words[-1] in _ENTITY_WORDS)


def is_additive_name(name: str) -> bool:
    """Return whether values may be summed: they are neither durations nor ratios nor levels."""
    return not _LEVEL_WORDS & set(_split_name(name))


def rank_by_words(name: str, words: Sequence[str]) -> int:
    """Return the position of the first word that is a part of the name; the number of words if none is."""
    return next((place for place, word in enumerate(words) if word in name.lower()), len(words))


def _split_name(name: str) -> list[str]:
    return [part.lower() for part in re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", name) if part]

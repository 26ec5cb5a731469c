"""What people type: times, keys, tolerances; parsed once, refused with what was expected."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from cutover.errors import DefinitionError

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)', re.DOTALL)


def moment(text: str, option: str) -> datetime:
    """Return a time in UTC: ISO 8601, a time without a zone is UTC.

    Raises:
        DefinitionError: It is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        msg = f"`{option}`: expected a time such as `2013-02-08T14:00:00Z` or `2013-02-08`, got `{text[:80]}`."
        raise DefinitionError(msg) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def key(text: str) -> list[str | None]:
    """Split `--key` into values, as `text.key` joins them.

    Raises:
        DefinitionError: A quote is left open, or text stands beside one.
    """
    found: list[str | None] = []
    at = -1
    while at < len(text):
        match = _FIELD.match(text, at + 1)
        if match is None:
            msg = f"KEY: expected values separated by commas, one with a comma or a quote in quotes, got `{text[:80]}`."
            raise DefinitionError(msg + '\nHint: as CSV has it: `a,"b,c"`; `null` is null, `"null"` a text.')
        quoted, plain = match.groups()
        found.append(quoted.replace('""', '"') if quoted is not None else None if plain == "null" else plain)
        at = match.end()
    return found


def names(text: str, option: str) -> tuple[str, ...]:
    """Split an option's column names at commas.

    Raises:
        DefinitionError: There is none.
    """
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        msg = f"`{option}`: expected column names such as `origin,carrier`, got none."
        raise DefinitionError(msg)
    return found


def tolerances(texts: Sequence[str]) -> dict[str, float]:
    """Return column to absolute tolerance, of texts such as `amount=0.01`.

    Raises:
        DefinitionError: A text is not of this form, or a tolerance is negative.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            bound = float(number)
        except ValueError:
            bound = -1.0
        if not name or not 0 <= bound < float("inf"):
            msg = f"`--tolerance`: expected a column and a bound such as `amount=0.01`, got `{text[:80]}`."
            raise DefinitionError(msg)
        found[name] = bound
    return found

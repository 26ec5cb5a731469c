"""Strict reading of a scenario's objects: a field that nobody knows is refused, with its place and what is known."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from cutover.errors import DefinitionError


def load(path: Path) -> Mapping[str, object]:
    """Return the object in a JSON file; numbers with a point are decimals.

    Raises:
        DefinitionError: The file cannot be read, or holds anything but one JSON object without doubled fields.
    """
    try:
        found = json.loads(
            path.read_text(encoding="utf-8"),
            parse_float=Decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_pairs,
        )
    except OSError as error:
        msg = f"Scenario `{path.name}`: expected a file that can be read, got: {error.strerror}."
        raise DefinitionError(msg) from None
    except (ValueError, RecursionError) as error:
        msg = f"Scenario `{path.name}`: expected JSON, got: {str(error)[:200]}."
        raise DefinitionError(msg) from None
    return as_object(found, of=f"Scenario `{path.name}`")


def as_object(value: object, *, of: str) -> Mapping[str, object]:
    """Return a JSON object, or refuse."""
    if not isinstance(value, dict):
        refuse(of, "an object", value)
    return value


def as_list(value: object, *, of: str) -> Sequence[object]:
    """Return a JSON list, or refuse."""
    if not isinstance(value, list):
        refuse(of, "a list", value)
    return value


def as_text(value: object, *, of: str) -> str:
    """Return a text, or refuse."""
    if not isinstance(value, str):
        refuse(of, "a text", value)
    return value


def as_whole(value: object, *, of: str) -> int:
    """Return a whole number, or refuse."""
    if not isinstance(value, int) or isinstance(value, bool):
        refuse(of, "a whole number", value)
    return value


def check_known(given: Mapping[str, object], known: Sequence[str], *, of: str) -> None:
    """Refuse fields that mean nothing."""
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            msg = f"{of}: unknown field `{name[:80]}`: expected one of {', '.join(known)}."
            raise DefinitionError(msg + (f"\nHint: did you mean `{close[0]}`?" if close else ""))


def refuse(of: str, expected: str, value: object, hint: str = "") -> NoReturn:
    """Refuse a value: place, expected, got."""
    got = f"`{value[:80]}`" if isinstance(value, str) else "nothing" if value is None else f"`{str(value)[:80]}`"
    msg = f"{of}: expected {expected}, got {got}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg)


def _pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = f"the field `{twice[:80]}` twice in one object"
        raise ValueError(msg)
    return dict(found)


def _no_constant(text: str) -> NoReturn:
    msg = f"{text}, which is not JSON"
    raise ValueError(msg)

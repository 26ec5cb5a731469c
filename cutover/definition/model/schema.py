"""The schema of a topic: a closed list of types, each of which every engine reads from JSON alike."""

import re
from dataclasses import dataclass
from functools import cache

from cutover.definition.model.topic import Topic
from cutover.errors import DefinitionError

IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_RESERVED = """
    _kind _epoch _class _n _positions _record _partition _offset _log_time _event_time _reason _filtered
    _unknown _ids _pane _timing _index _order _processing_time _served_by _state _month window_start window_end
"""
RESERVED = frozenset(_RESERVED.split())
"""Names of columns that Cutover adds itself."""

ALIASES = {"integer": "int", "long": "bigint", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)"}
SIMPLE = ("boolean", "int", "bigint", "double", "string", "timestamp", "date")
TYPES = "boolean, int, bigint, double, decimal(p,s), string, timestamp, date"
RESERVED_PREFIX = "__"
"""Beginning of the names of columns that the parser makes on its way."""

MAX_PRECISION = 38
_DECIMAL = re.compile(r"^(?:decimal|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)$")
_FIELD = re.compile(r"^\s*(`[^`]+`|\S+?)\s*(?:\s|:)\s*(.+?)\s*$", re.DOTALL)
_NOT_NULL = re.compile(r"\s+not\s+null$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One top-level field of the record."""

    name: str
    type: str  # boolean, int, bigint, double, decimal(p,s), string, timestamp or date
    nullable: bool


def fields(topic: Topic) -> tuple[Field, ...]:
    """Return the fields of a topic's schema; errors as `parse_schema`."""
    return parse_schema(topic.schema)


def schema_types(topic: Topic) -> dict[str, str]:
    """Return column to type (`bigint`, `decimal(9,2)`, ...), in the order of the fields; errors as `parse_schema`."""
    return {field.name: field.type for field in fields(topic)}


@cache
def parse_schema(text: str) -> tuple[Field, ...]:
    """Return the fields of a schema such as `seq bigint NOT NULL, carrier string`.

    Raises:
        DefinitionError: A type is not in the list, a name is not an identifier, is ours, or stands twice
            (case does not tell names apart: neither Spark nor DuckDB does).
    """
    found = tuple(_field(part) for part in _parts(text))
    if not found:
        msg = "Schema: expected at least one field, such as `carrier string`, got none."
        raise DefinitionError(msg)
    seen: set[str] = set()
    for item in found:
        if item.name.lower() in seen:
            msg = f"Schema: expected different names, got `{item.name}` twice (case does not tell names apart)."
            raise DefinitionError(msg)
        seen.add(item.name.lower())
    return found


def canonical_type(text: str) -> str:
    """Return the type as this project writes it: lower case, without aliases or blanks.

    Raises:
        DefinitionError: The type is not in the list.
    """
    kind = " ".join(text.lower().split())
    kind = ALIASES.get(kind, kind)
    if kind in SIMPLE:
        return kind
    match = _DECIMAL.match(kind)
    if match and 1 <= int(match[1]) <= MAX_PRECISION and int(match[2] or 0) <= int(match[1]):
        return f"decimal({int(match[1])},{int(match[2] or 0)})"
    msg = f"Type: expected one of {TYPES}, got `{text[:80]}`."
    raise DefinitionError(msg)


def decimal_parts(kind: str) -> tuple[int, int] | None:
    """Return (precision, scale) of a decimal type, None of any other."""
    match = _DECIMAL.match(kind)
    return (int(match[1]), int(match[2] or 0)) if match else None


def check_name(name: str, *, of: str) -> None:
    """Refuse a name that is not a plain identifier or that is one of ours.

    Raises:
        DefinitionError: Says which name, and where (`of`).
    """
    if not IDENTIFIER.match(name):
        shown = name if len(name) <= 80 else name[:80] + "..."  # noqa: PLR2004 -- one line of a terminal
        msg = f"{of}: expected letters, digits and `_`, at most 63, not starting with a digit, got {shown!r}."
        raise DefinitionError(msg)
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX):
        msg = f"{of}: `{name}` is a name that Cutover uses itself.\nHint: choose another one."
        raise DefinitionError(msg)


def _parts(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _field(part: str) -> Field:
    match = _FIELD.match(part)
    if match is None:
        msg = f"Schema: expected a name and a type, such as `carrier string`, got `{part.strip()}`."
        raise DefinitionError(msg)
    name, rest = match[1].strip("`"), match[2]
    check_name(name, of="Schema")
    kind = _NOT_NULL.sub("", rest)
    try:
        return Field(name=name, type=canonical_type(kind), nullable=kind == rest)
    except DefinitionError as error:
        msg = f"Schema, field `{name}`: {error}"
        raise DefinitionError(msg) from None

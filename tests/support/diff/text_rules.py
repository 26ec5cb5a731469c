"""The rules of docs/diff.md for texts, in plain Python: the value of a cell, and when two columns are equal.

Nothing here is shared with the product: the property tests compare the product with it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from typing import Literal

Answer = Literal["equal", "different", "refused"]
Cell = str | None
"""A cell of CSV: null is an empty one without quotes."""

Row = tuple[Cell, Cell]
"""Key and value."""

_PLAIN = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)")
_FLOAT = re.compile(rf"({_PLAIN.pattern})([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    rf"{_DATE.pattern}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}}0*)?)?(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?"
)


def number(text: str) -> Decimal | None:
    """Return the number of a plain decimal literal; None for any other text."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def read(text: str, kind: str) -> object:
    """Return the value of a type that a text is a way to write; the text itself, marked, where it is none."""
    unread = ("unread", text)
    match kind:
        case "text":
            return text
        case "int64" | "decimal":
            decimal = number(text)
            return unread if decimal is None else decimal
        case "float64":
            return _read_float(text)
        case "bool":
            return {"true": True, "false": False}.get(text.lower(), unread)
        case "date":
            return _read_date(text) or unread
    return _read_moment(text) or unread


def _read_float(text: str) -> object:
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        return "nan" if "nan" in text.lower() else float(text)
    if not _FLOAT.fullmatch(text):
        return ("unread", text)
    digits = _digits(text)
    value = float(text)
    with localcontext() as context:
        context.prec = max(len(digits), 1)
        rounded = +Decimal(value) if value - value == 0 else None
    is_print = not digits or (rounded is not None and _digits(f"{rounded:e}") == digits)
    return value if is_print else ("unread", text)


def _digits(text: str) -> str:
    return re.sub("[^0-9]", "", re.sub("[eE].*", "", text)).strip("0")


def _read_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _read_moment(text: str) -> datetime | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.[0-9]{6})0+", r"\1", text))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def compare_csv(left: Iterable[Row], right: Iterable[Row]) -> Answer:
    """Return what two tables of CSV with a key and a value are, both columns without a type.

    A column of plain decimal literals holds numbers, any other one texts; among numbers an empty text is a null. Where
    rows differ by how numbers or nulls are written alone, in a column of texts, neither answer can be proven.
    """
    sides = [*left], [*right]
    numeric = [_is_numeric(row[n] for side in sides for row in side) for n in (0, 1)]
    if not any(sides):
        return "refused"
    as_inferred = [_multiset(side, numeric) for side in sides]
    if as_inferred[0] == as_inferred[1]:
        return "equal"
    mixed = [*numeric]
    for n in (0, 1):
        is_blank = not any(row[n] for side in sides for row in side)
        mixed[n] = numeric[n] or is_blank or all(any(_is_plain(row[n]) for row in side) for side in sides)
    as_numbers = [_multiset(side, mixed) for side in sides]
    return "refused" if as_numbers[0] == as_numbers[1] else "different"


def _is_plain(cell: Cell) -> bool:
    return cell is not None and number(cell) is not None


def _is_numeric(cells: Iterable[Cell]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(map(_is_plain, filled))


def _multiset(rows: Iterable[Row], as_numbers: list[bool]) -> Mapping[object, int]:
    return Counter(
        tuple(_value(cell, is_number) for cell, is_number in zip(row, as_numbers, strict=True)) for row in rows
    )


def _value(cell: Cell, is_number: bool) -> object:
    if not cell or not is_number:
        return None if is_number else cell
    decimal = number(cell)
    return cell if decimal is None else decimal

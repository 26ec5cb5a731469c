"""Values of the columns of a schema in a JSON text, as Spark's `from_json` reads them with its default options.

A value that cannot be read leaves an earlier one of the same name; an object or array that contains it is read in part
(`spark.sql.json.enablePartialResults`), except for an array with an element that is neither an object nor an array: it
is not read at all. After a broken token Spark goes on in the middle of what it read, so fields of inner objects may be
taken for outer ones; all of this follows the structure of its `JacksonParser`.

A number in a field that is a string becomes the text that Java writes for it. Doubles are written with the fewest
digits that identify them. Java before 19 writes some of them, such as 2e23, with a digit more or another one; they have
16 digits or more, or are beyond 2^53.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal
from typing import Any

from cutover.definition.model.topic import JsonPath, Tree, parse_decimal_type
from cutover.records.parsing import limits
from cutover.records.parsing.parsed_record import RANGES, UNPAIRED_SURROGATE, JsonNumber, JsonObject
from cutover.records.reference.jackson import BrokenJsonError, JsonTokens, Token
from cutover.records.reference.scalars import parse_date

_PLAIN_EXPONENTS = range(-3, 7)  # of the first digit, between which Java writes no exponent


def format_java_number(value: Any) -> str:
    """Write null, a boolean or a number; `NaN` and infinities are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, JsonNumber):
        return str(int(value.text)) if value.is_whole else format_double(float(value.text))
    return format_double(value)


def format_double(number: float) -> str:
    """Write a double as `Double.toString` does; `NaN` and infinities in quotes, as in JSON."""
    if math.isnan(number):
        return '"NaN"'
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1, number) < 0 else ""
    if number == 0:
        return f"{sign}0.0"
    digits, first = _find_digits(abs(number))
    if first in _PLAIN_EXPONENTS:
        digits = "0" * -first + digits if first < 0 else digits.ljust(first + 2, "0")
        point = max(first, 0) + 1
        return f"{sign}{digits[:point]}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{first}"


def _find_digits(number: float) -> tuple[str, int]:
    """Return the shortest digits, two if there are no fewer than one, and the exponent of the first."""
    text = repr(number)
    decimal = Decimal(text)
    digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    if len(digits) == 1 and float(f"{number:.1e}") == number:
        decimal = Decimal(f"{number:.1e}")
        digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0")
    return digits.lstrip("0"), decimal.adjusted()


VARIANT = "variant"

_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_BEYOND_BMP = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_LONG_EXPONENT = re.compile(r"[eE][+-]?\d{5}")
_INFINITIES = {"+INF": 1.0, "+Infinity": 1.0, "Infinity": 1.0, "-INF": -1.0, "-Infinity": -1.0}
_EXACT = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP, Emin=-(10**17), Emax=10**17)
_WRITTEN = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_WRITTEN |= {chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _WRITTEN}
_WRITE = str.maketrans(_WRITTEN)
_STARTS = (Token.START_OBJECT, Token.START_ARRAY)
_ENDS = (Token.END_OBJECT, Token.END_ARRAY)


class UnreadableError(Exception):
    """Value that `from_json` does not read as the type."""


class _PartialError(Exception):
    """Object or array that is read in part."""

    def __init__(self, result: Any) -> None:
        super().__init__("read in part")
        self.result = result


@dataclass(frozen=True, slots=True)
class ReadValue:
    """Value of a type of the schema, and what it was in the JSON."""

    value: Any  # bool, int, float, Decimal, str or days since 1970; of VARIANT as in the JSON
    member: Any  # None, bool, str, JsonNumber, float; JsonObject or list, without their contents


def read_columns(text: str, tree: Tree) -> Mapping[str, Any]:
    """Read the places of a tree, whose leaves are types of Spark, from the object at the beginning of a text.

    Returns:
        By name: a mapping of an object, a list of an array, a `ReadValue` or None; empty if there is no object.
    """
    tokens = JsonTokens(text)
    try:
        if tokens.advance() is not Token.START_OBJECT:
            return {}
        return _read_object(tokens, tree)
    except _PartialError as partial:
        return dict(partial.result)
    except (BrokenJsonError, UnreadableError):
        return {}


def select_path(row: Any, path: JsonPath) -> ReadValue | None:
    """Select the value at a path; None if it, or a parent, is null or missing."""
    for step in path:
        if isinstance(step, int):
            row = row[step] if row is not None and step < len(row) else None
        else:
            row = None if row is None else row.get(step)
    selected: ReadValue | None = row
    return selected


def list_names(text: str) -> list[str]:
    """List the names of the fields of the object at the beginning of a text; none if it is broken."""
    tokens = JsonTokens(text)
    names: list[str] = []
    try:
        if tokens.advance() is not Token.START_OBJECT:
            return []
        while tokens.advance() is not Token.END_OBJECT:
            names.append(str(tokens.name))
            tokens.advance()
            if tokens.token in _STARTS:
                _copy_structure(tokens)
            else:
                tokens.read_scalar()
    except (BrokenJsonError, UnreadableError):
        return []
    return names


def _read_object(tokens: JsonTokens, members: Tree) -> dict[str, Any]:
    row: dict[str, Any] = {}
    is_partial = False
    while tokens.advance() not in {None, Token.END_OBJECT}:
        name = tokens.name
        if name is None or name not in members:
            tokens.skip_children()
            continue
        try:
            row[name] = _read_value(tokens, members[name])
        except _PartialError as partial:
            row[name] = partial.result
            is_partial = True
        except (BrokenJsonError, UnreadableError):
            is_partial = True
            tokens.skip_children()
    if is_partial:
        raise _PartialError(row)
    return row


def _read_array(tokens: JsonTokens, element: Tree | str) -> list[Any]:
    values: list[Any] = []
    is_partial = False
    while tokens.advance() not in {None, Token.END_ARRAY}:
        try:
            values.append(_read_value(tokens, element))
        except _PartialError as partial:
            values.append(partial.result)
            is_partial = True
    if is_partial:
        raise _PartialError(values)
    return values


def _read_value(tokens: JsonTokens, node: Tree | str) -> Any:
    if node == VARIANT:
        return _read_variant(tokens)
    while tokens.token is Token.NAME:
        tokens.advance()
    if tokens.token in {None, Token.NULL}:
        return None
    if isinstance(node, str):
        return _read_leaf(tokens, node)
    if tokens.token is Token.START_OBJECT and None not in node:
        return _read_object(tokens, node)
    if tokens.token is Token.START_ARRAY and None in node:
        return _read_array(tokens, node[None])
    if tokens.token is Token.STRING:
        tokens.read_scalar()
    raise UnreadableError


def _read_leaf(tokens: JsonTokens, kind: str) -> ReadValue:
    if tokens.token in _ENDS or (tokens.token in _STARTS and kind != "string"):
        raise UnreadableError
    if tokens.token in _STARTS:
        member: Any = JsonObject(()) if tokens.token is Token.START_OBJECT else []
        return ReadValue(_copy_structure(tokens), member)
    member = tokens.read_scalar()
    return ReadValue(convert_scalar(member, kind), member)


def convert_scalar(member: Any, kind: str) -> Any:
    """Convert a scalar to a type.

    Raises:
        UnreadableError: `from_json` does not read it.
    """
    if kind == "boolean":
        return member if isinstance(member, bool) else _reject()
    if kind in RANGES:
        return _read_whole(member, kind)
    if kind == "double":
        return _read_double(member)
    if kind == "string":
        return member.encode("utf-8", "replace").decode() if isinstance(member, str) else format_java_number(member)
    if kind == "date":
        days = parse_date(member) if isinstance(member, str) else None
        return _reject() if days is None else days
    return _read_decimal(member, kind)


def _reject() -> Any:
    raise UnreadableError


def _read_whole(member: Any, kind: str) -> int:
    if not isinstance(member, JsonNumber) or not member.is_whole:
        raise UnreadableError
    number = int(member.text)
    if not -RANGES[kind] <= number < RANGES[kind]:
        raise UnreadableError
    return number


def _read_double(member: Any) -> float:
    if isinstance(member, JsonNumber):
        return float(member.text)
    if isinstance(member, float):
        return member
    if member == "NaN":
        return float("nan")
    if not isinstance(member, str) or member not in _INFINITIES:
        raise UnreadableError
    return _INFINITIES[member] * float("inf")


def _read_decimal(member: Any, kind: str) -> Decimal:
    text = member.replace(",", "") if isinstance(member, str) else getattr(member, "text", "")
    is_long = isinstance(member, str) and (len(member) > limits.MAX_DECIMAL_TEXT or _LONG_EXPONENT.search(member))
    # Java knows no digits beyond the BMP.
    if is_long or not _DECIMAL.fullmatch(text) or (not text.isascii() and _BEYOND_BMP.search(text)):
        raise UnreadableError
    return round_decimal(Decimal(text), kind)


def round_decimal(number: Decimal, kind: str) -> Decimal:
    """Round half up to a decimal type.

    Raises:
        UnreadableError: It has too many digits before the point.
    """
    precision, scale = parse_decimal_type(kind) or (0, 0)
    if number and number.adjusted() >= precision - scale:
        raise UnreadableError
    near = Decimal(0) if number.adjusted() < -scale - 1 else number
    rounded = near.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rounded and rounded.adjusted() >= precision - scale:
        raise UnreadableError
    return rounded or rounded.copy_abs()  # minus zero is zero


def _copy_structure(tokens: JsonTokens) -> str:
    """Write an object or array as Spark does, without recursion."""
    written: list[str] = []
    counts: list[int] = []  # of members, of each open object and array
    follows_name = False
    while True:
        token = tokens.token
        if token in _ENDS:
            counts.pop()
            written.append("}" if token is Token.END_OBJECT else "]")
            if not counts:
                return "".join(written)
        else:
            if counts and not follows_name:
                written.append("," if counts[-1] else "")
                counts[-1] += 1
            follows_name = token is Token.NAME
            if token in _STARTS:
                written.append("{" if token is Token.START_OBJECT else "[")
                counts.append(0)
            elif token is Token.NAME:
                written.append(f"{_format_scalar(tokens.name)}:")
            else:
                written.append(_format_scalar(tokens.read_scalar()))
        if tokens.advance() is None:
            raise UnreadableError


def _format_scalar(value: Any) -> str:
    if not isinstance(value, str):
        return format_java_number(value)
    return f'"{_BEYOND_BMP.sub(_escape_units, value.translate(_WRITE))}"'


def _escape_units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _read_variant(tokens: JsonTokens) -> ReadValue:
    if tokens.token is Token.NAME:
        tokens.advance()
    if tokens.token is None or tokens.token in _ENDS or tokens.token is Token.NAME:
        raise UnreadableError
    if tokens.token not in _STARTS:
        value = _read_variant_scalar(tokens)
        return ReadValue(value, value)
    member: Any = JsonObject(()) if tokens.token is Token.START_OBJECT else []
    _read_variant_structure(tokens)
    return ReadValue(member, member)


def _read_variant_scalar(tokens: JsonTokens) -> Any:
    value = tokens.read_scalar()
    if isinstance(value, str) and not value.isascii() and UNPAIRED_SURROGATE.search(value):
        raise UnreadableError
    return value


def _read_variant_structure(tokens: JsonTokens) -> None:
    """Read to the end of an object or array; its objects have distinct names."""
    opened: list[list[str] | None] = []  # names of an object, None of an array
    while True:
        if tokens.token in _STARTS:
            opened.append([] if tokens.token is Token.START_OBJECT else None)
        elif tokens.token is None or tokens.token in _ENDS:
            raise UnreadableError
        else:
            _read_variant_scalar(tokens)
        while opened:
            token, names = tokens.advance(), opened[-1]
            if names is None and token is not Token.END_ARRAY:
                break
            if names is not None and token is not Token.END_OBJECT:
                names.append(str(tokens.name))
                tokens.advance()
                break
            opened.pop()
            if names is not None and len(set(names)) < len(names):
                raise UnreadableError
        if not opened:
            return

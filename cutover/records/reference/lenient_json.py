"""Tokens of a JSON object as Spark's `from_json` reads them by default.

Beyond RFC 8259 it takes single quotes, `NaN` and `Infinity`, and ignores any text after the object. A broken string is
unreadable in a field that is asked for, and reading goes on after the character that breaks it; elsewhere it breaks the
whole object. Of a broken string within a nested value Spark goes on inside of that value; here the object is broken.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cutover.records.parsing import limits
from cutover.records.reference.java_numbers import format_java_number
from cutover.records.reference.values import JsonNumber, has_long_number

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_NUMBER = re.compile(r"-?(?:0(?![0-9])|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![.eE])")
_CONSTANT = re.compile(r"true|false|null|NaN|[+-]?Infinity|[+-]INF")
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\", "'": "'"}
_HEX = "0123456789abcdefABCDEF"
_WRITTEN = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_WRITTEN |= {chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _WRITTEN}
_WRITE = str.maketrans(_WRITTEN)
_BEYOND_BMP = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")


class BrokenJsonError(ValueError):
    """Text that does not begin with a JSON object."""


class _BrokenStringError(BrokenJsonError):
    def __init__(self, end: int) -> None:
        super().__init__("a broken string")
        self.end = end


@dataclass(frozen=True, slots=True)
class NestedValue:
    """Object or array, as the text that Spark writes for it."""

    text: str


UNREADABLE = object()
"""Value that breaks off; earlier values of the same name remain."""


def read_members(text: str, names: Collection[str]) -> list[tuple[str, Any]]:
    """Read the members of the object at the beginning of a text, and ignore what follows it.

    Args:
        text: The whole record.
        names: The fields that are asked for.

    Returns:
        Names with None, bool, str, JsonNumber, float (`NaN` and infinities), `NestedValue` or `UNREADABLE`.

    Raises:
        BrokenJsonError: There is no object, or it is broken.
    """
    position = _expect(text, _skip_space(text, 0), "{")
    members: list[tuple[str, Any]] = []
    if text[position : position + 1] == "}":
        return members
    while True:
        name, position = _read_name(text, position)
        try:
            value, position = _read_value(text, position)
        except _BrokenStringError as error:
            if name not in names:
                raise
            value, position = UNREADABLE, error.end
        members.append((name, value))
        position = _skip_space(text, position)
        if text[position : position + 1] == "}":
            return members
        position = _expect(text, position, ",")


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _expect(text: str, position: int, mark: str) -> int:
    """Return the position after a mark and the space after it."""
    if text[position : position + 1] != mark:
        msg = f"expected {mark!r}"
        raise BrokenJsonError(msg)
    return _skip_space(text, position + 1)


def _read_name(text: str, position: int) -> tuple[str, int]:
    try:
        name, position = _read_string(text, position)
    except _BrokenStringError as error:
        msg = "a broken name"
        raise BrokenJsonError(msg) from error
    if len(name) > limits.MAX_NAME:
        msg = "a long name"
        raise BrokenJsonError(msg)
    return name, _expect(text, _skip_space(text, position), ":")


def _read_value(text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] in {"{", "["}:
        return _read_nested(text, position)
    return _read_scalar(text, position)


def _read_scalar(text: str, position: int) -> tuple[Any, int]:
    if text[position : position + 1] in _PLAIN:
        return _read_string(text, position)
    constant = _CONSTANT.match(text, position)
    if constant is not None:
        word = constant[0]
        return (_CONSTANTS[word] if word in _CONSTANTS else float(word)), constant.end()
    number = _NUMBER.match(text, position)
    if number is None or has_long_number(number[0]):
        msg = "no value"
        raise BrokenJsonError(msg)
    return JsonNumber(number[0]), number.end()


def _read_string(text: str, position: int) -> tuple[str, int]:
    """Read the string at a position; a broken one states where reading goes on."""
    quote = text[position : position + 1]
    if quote not in _PLAIN:
        msg = "expected a string"
        raise BrokenJsonError(msg)
    parts: list[str] = []
    position += 1
    while True:
        plain = _PLAIN[quote].match(text, position)
        parts.append("" if plain is None else plain[0])
        position += len(parts[-1])
        mark = text[position : position + 1]
        position += 1
        if mark == quote:
            return _join_surrogates("".join(parts)), position
        if mark != "\\":
            raise _BrokenStringError(position)
        escape = text[position : position + 1]
        position += 1
        if escape != "u":
            if escape not in _ESCAPES:
                raise _BrokenStringError(position)
            parts.append(_ESCAPES[escape])
            continue
        for digit in range(position, position + 4):
            if text[digit : digit + 1] not in set(_HEX):
                raise _BrokenStringError(digit + 1)
        parts.append(chr(int(text[position : position + 4], 16)))
        position += 4


def _join_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _read_nested(text: str, position: int) -> tuple[NestedValue, int]:
    """Read an object or array, without recursion: the stack holds what closes each open one."""
    written: list[str] = []
    closing: list[str] = []
    while True:
        mark = text[position : position + 1]
        if mark in {"{", "["}:
            closing.append("}" if mark == "{" else "]")
            if len(closing) >= limits.MAX_DEPTH:
                msg = "nested too deep"
                raise BrokenJsonError(msg)
            position = _skip_space(text, position + 1)
            written.append(mark)
            if text[position : position + 1] != closing[-1]:
                position = _open_member(text, position, closing[-1], written)
                continue
        else:
            value, position = _read_member_scalar(text, position)
            written.append(format_scalar(value))
        position = _skip_space(text, position)
        while text[position : position + 1] == closing[-1]:
            written.append(closing.pop())
            position += 1
            if not closing:
                return NestedValue("".join(written)), position
            position = _skip_space(text, position)
        position = _expect(text, position, ",")
        written.append(",")
        position = _open_member(text, position, closing[-1], written)


def _open_member(text: str, position: int, closing: str, written: list[str]) -> int:
    """Read the name of a member of an object; an array has none."""
    if closing == "]":
        return position
    name, position = _read_name(text, position)
    written.append(f"{format_scalar(name)}:")
    return position


def _read_member_scalar(text: str, position: int) -> tuple[Any, int]:
    try:
        return _read_scalar(text, position)
    except _BrokenStringError as error:
        msg = "a broken string in a nested value"
        raise BrokenJsonError(msg) from error


def format_scalar(value: Any) -> str:
    """Write a value within a nested one, as Spark does."""
    if not isinstance(value, str):
        return format_java_number(value)
    return f'"{_BEYOND_BMP.sub(_escape_units, value.translate(_WRITE))}"'


def _escape_units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))

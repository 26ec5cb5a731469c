"""Texts from data, safe to show: as cells of CSV, and in a terminal whose library interprets markup.

In CSV, an apostrophe precedes a text that a spreadsheet would evaluate as a formula. Control and format characters are
shown as their escapes.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import TextIO

from rich.markup import escape

_FORMULA = ("=", "+", "-", "\N{MINUS SIGN}", "@")
_FIRST = ("\t", "\r", "\n")
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidirectional overrides too), surrogates, separators
_UNUSUAL = re.compile(r"[^\x20-\x7e]")
_ESCAPE = re.compile(r"\\(?:[\\ntr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_NAMED = {"\\\\": "\\", "\\n": "\n", "\\t": "\t", "\\r": "\r"}
_LAST_CODE = 0x10FFFF
_EMPTY = '""'
_MUST_QUOTE = re.compile(r'[,"\r\n]')


class Quoted(str):
    """Text that is always written in quotes, so that it is not read as a keyword such as `null`."""

    __slots__ = ()


def write_rows(file: TextIO, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as lines of CSV, each value formatted by `cell`, including column names."""
    for row in rows:
        line = ",".join(_quote(cell(value), is_forced=isinstance(value, Quoted)) for value in row)
        file.write((line or _EMPTY) + "\n")  # a line with a single empty value would look like no line


def _quote(text: str, *, is_forced: bool) -> str:
    return '"' + text.replace('"', '""') + '"' if is_forced or _MUST_QUOTE.search(text) else text


def visible(text: str) -> str:
    r"""Return a text with every control and format character as its escape (`\x1b`, `\u202e`)."""
    return _UNUSUAL.sub(_escape_match, text)


def escape_text(text: str) -> str:
    r"""Escape a text as `visible` does, but reversibly by `unescape_text`: `\\n` for a backslash before an n."""
    visible_form = visible(text)
    return visible_form if unescape_text(visible_form) == text else visible(text.replace("\\", "\\\\"))


def unescape_text(text: str) -> str:
    """Reverse `escape_text`; a backslash that begins no escape is kept."""
    return _ESCAPE.sub(_unescape_match, text)


def cell(value: object) -> str:
    """Format a value as a cell: numbers and times unchanged, texts escaped, null empty.

    An apostrophe is also added if the text begins with one that `strip_guard` would remove.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    text = escape_text(value)
    return f"'{text}" if _is_formula(value) or strip_guard(text) != text else text


def strip_guard(text: str) -> str:
    """Remove the apostrophe that `cell` adds before a formula."""
    return text[1:] if text.startswith("'") and _is_formula(unescape_text(text.lstrip("'"))) else text


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet may evaluate a text as a formula.

    Programs differ in what they skip first: blanks, control characters, zero-width marks, a byte order mark. A sign may
    be in its full-width, small or superscript form.
    """
    stripped = text.lstrip(
        "".join({character for character in text if character.isspace() or unicodedata.category(character) in _HIDDEN})
    )
    return text.startswith(_FIRST) or unicodedata.normalize("NFKC", stripped[:1]).startswith(_FORMULA)


def _escape_match(match: re.Match[str]) -> str:
    character = match[0]
    is_hidden = unicodedata.category(character) in _HIDDEN
    return character.encode("unicode_escape").decode("ascii") if is_hidden else character


def _unescape_match(match: re.Match[str]) -> str:
    escape = match[0]
    if escape in _NAMED:
        return _NAMED[escape]
    code = int.from_bytes(bytes.fromhex(escape[2:]))
    return chr(code) if code <= _LAST_CODE else escape


def literal_text(text: str) -> str:
    """Escape a text so that rich prints it literally, with control characters as escapes."""
    return escape(visible(text))

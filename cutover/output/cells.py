"""The one writer of CSV: a text that a spreadsheet would take for a formula begins with an apostrophe."""

import re
import unicodedata
from collections.abc import Iterable
from typing import TextIO

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
    """A text that is written in quotes, so that whoever reads the line knows it from a word with a meaning."""

    __slots__ = ()


def write_rows(file: TextIO, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as lines of CSV, each value as `cell` says; names of columns are values too."""
    for row in rows:
        line = ",".join(_quote(cell(value), is_forced=isinstance(value, Quoted)) for value in row)
        file.write((line or _EMPTY) + "\n")  # a line of one empty value is not taken for no line


def _quote(text: str, *, is_forced: bool) -> str:
    return '"' + text.replace('"', '""') + '"' if is_forced or _MUST_QUOTE.search(text) else text


def visible(text: str) -> str:
    r"""Return a text with every control and format character as its escape (`\x1b`, `\u202e`)."""
    return _UNUSUAL.sub(_escape_match, text)


def escape_text(text: str) -> str:
    r"""Return a text as `visible` does, so that `unescape_text` gives it back: `\\n` for a backslash before an n."""
    visible_form = visible(text)
    return visible_form if unescape_text(visible_form) == text else visible(text.replace("\\", "\\\\"))


def unescape_text(text: str) -> str:
    """Return the text that `escape_text` was given; a backslash that begins no escape stays."""
    return _ESCAPE.sub(_unescape_match, text)


def cell(value: object) -> str:
    """Return a value as a cell: numbers and times as they are, texts made harmless, null empty.

    An apostrophe before the text also stands where the text itself begins with one that `strip_guard` would take away.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    text = escape_text(value)
    return f"'{text}" if _would_run(value) or strip_guard(text) != text else text


def strip_guard(text: str) -> str:
    """Return a text without the apostrophe that `cell` puts before a formula."""
    return text[1:] if text.startswith("'") and _would_run(unescape_text(text.lstrip("'"))) else text


def _would_run(text: str) -> bool:
    """Return whether a spreadsheet may take a text for a formula.

    Programs differ in what they leave aside first: blanks, control characters, marks without width, a byte order mark.
    A sign may come in its wide, small or raised form.
    """
    bare = text.lstrip("".join({c for c in text if c.isspace() or unicodedata.category(c) in _HIDDEN}))
    return text.startswith(_FIRST) or unicodedata.normalize("NFKC", bare[:1]).startswith(_FORMULA)


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

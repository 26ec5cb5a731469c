"""The one writer of CSV: a text that a spreadsheet would take for a formula begins with an apostrophe."""

import csv
import re
import unicodedata
from collections.abc import Iterable
from typing import TextIO

_FORMULA = ("=", "+", "-", "\N{MINUS SIGN}", "@")
_FIRST = ("\t", "\r", "\n")
_HIDDEN = {"Cc", "Cf", "Zl", "Zp"}  # control, format (bidirectional overrides too), line and paragraph separators
_UNUSUAL = re.compile(r"[^\x20-\x7e]")


def write_rows(file: TextIO, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as lines of CSV, each value as `cell` says; names of columns are values too."""
    csv.writer(file, lineterminator="\n").writerows(map(cell, row) for row in rows)


def visible(text: str) -> str:
    r"""Return a text with every control and format character as its escape (`\x1b`, `\u202e`)."""
    return _UNUSUAL.sub(_escape_match, text)


def cell(value: object) -> str:
    """Return a value as a cell: numbers and times as they are, texts made harmless, null empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    return f"'{visible(value)}" if _would_run(value) else visible(value)


def _would_run(text: str) -> bool:
    """Return whether a spreadsheet may take a text for a formula.

    Programs differ in what they leave aside first: blanks, control characters, marks without width, a byte order mark.
    A sign may come in its wide, small or raised form.
    """
    bare = text.lstrip("".join({c for c in text if c.isspace() or unicodedata.category(c) in _HIDDEN}))
    return text.startswith(_FIRST) or unicodedata.normalize("NFKC", bare[:1]).startswith(_FORMULA)


def _escape_match(found: re.Match[str]) -> str:
    character = found[0]
    is_hidden = unicodedata.category(character) in _HIDDEN
    return character.encode("unicode_escape").decode("ascii") if is_hidden else character

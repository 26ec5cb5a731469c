r"""Keys as text: formatting for people, and parsing of what they type; a formatted key parses to the same key.

Three unambiguous forms are accepted:

- values, as in CSV: `JFK,"a,b",null`
- columns with values: `origin=JFK, carrier="a,b", flight=null`
- a JSON object, as `--json` prints it: `{"origin": "JFK", "carrier": "a,b", "flight": null}`

In the first two `null` is null and `"null"` a text; a value with an ambiguous character is quoted. Control and format
characters are shown as escapes (`\n`, `\u202e`). In CSV files an apostrophe precedes a text that a spreadsheet would
evaluate as a formula. Both are accepted as input.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from cutover.errors import DefinitionError
from cutover.output.cells import Quoted, escape_text, strip_guard, unescape_text

Scalar = str | int | float | bool | None
"""Value of a key in JSON."""

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)', re.DOTALL)
_EMPTY = '""'
_AMBIGUOUS = re.compile(r'[,"=]|^[{\s]|\s$|^null\Z', re.DOTALL)


def format_values(values: Iterable[Scalar]) -> str:
    """Format the values of a key as in CSV; empty for no columns."""
    return ",".join(map(_format_value, values))


def format_columns(key: Mapping[str, Scalar]) -> str:
    """Format a key as `origin=EWR, carrier=UA`; empty for no columns."""
    return ", ".join(f"{escape_text(name)}={_format_value(value, empty=_EMPTY)}" for name, value in key.items())


def format_argument(key: Mapping[str, Scalar]) -> str:
    """Format a key as an argument of a command: its values, or `origin=--all` if they would be read as an option."""
    text = format_values(key.values())
    return format_columns(key) if text.startswith("-") else text


def make_cells(values: Iterable[Scalar]) -> list[object]:
    """Return the values of a key for `write_rows`, so that the line parses like the text of `format_values`."""
    return [_make_cell(value) for value in values]


def quote_ambiguous(text: str) -> str:
    """Quote a text for `write_rows` if it could be read as a null, a name or several values."""
    return Quoted(text) if not text or _AMBIGUOUS.search(text) else text


def value_text(value: Scalar) -> str | None:
    """Return the text from which a column's type parses a value; None for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def parse_key(text: str, columns: Sequence[str]) -> list[str | None]:
    """Parse a key in any of the forms into the text of each column; None for null.

    Raises:
        DefinitionError: A quote is unclosed, or the number of values differs from that of the columns.
    """
    values = _parse_json(text, columns)
    if values is None and columns and re.match(rf"{re.escape(columns[0])}\s*=", text):
        values = _parse_columns(text, columns)
    if values is None:
        values = [] if not columns and not text else split_key(text)
    if len(values) != len(columns):
        column_names = ", ".join(columns) or "no columns"
        msg = f"KEY: expected {len(columns)} values ({column_names}), got {len(values)}: `{text[:80]}`."
        raise DefinitionError(msg + "\nHint: `a,b`; `null` for a null.")
    return values


def split_key(text: str) -> list[str | None]:
    """Split a key into its values; `null` is null, `"null"` a text.

    Raises:
        DefinitionError: A quote is unclosed, or text follows a closing quote.
    """
    key: list[str | None] = []
    position = -1
    while position < len(text):
        match = _FIELD.match(text, position + 1)
        if match is None:
            raise _make_error(text)
        key.append(_parse_value(match))
        position = match.end()
    return key


def _parse_columns(text: str, columns: Sequence[str]) -> list[str | None]:
    values: list[str | None] = []
    position = 0
    for name in columns:
        head = re.compile(rf"{',' if values else ''}\s*{re.escape(name)}\s*=").match(text, position)
        match = None if head is None else _FIELD.match(text, head.end())
        if match is None:
            raise _make_error(text)
        values.append(_parse_value(match))
        position = match.end()
    if position != len(text):
        raise _make_error(text)
    return values


def _parse_json(text: str, columns: Sequence[str]) -> list[str | None] | None:
    """Parse a JSON object with these columns; None for any other text."""
    try:
        parsed = json.loads(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None
    if not isinstance(parsed, dict) or set(parsed) != set(columns):
        return None
    return [value_text(parsed[name]) for name in columns]


def _parse_value(match: re.Match[str]) -> str | None:
    quoted, plain = match.groups()
    if quoted is None and plain == "null":
        return None
    return unescape_text(strip_guard(plain if quoted is None else quoted.replace('""', '"')))


def _format_value(value: Scalar, *, empty: str = "") -> str:
    text = value_text(value)
    if text is None:
        return "null"
    escaped = escape_text(text)
    guarded = f"'{escaped}" if strip_guard(escaped) != escaped else escaped
    return '"' + guarded.replace('"', '""') + '"' if _AMBIGUOUS.search(guarded) else guarded or empty


def _make_cell(value: Scalar) -> object:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quote_ambiguous(value)
    return value_text(value) if isinstance(value, bool) else value


def _make_error(text: str) -> DefinitionError:
    msg = f"KEY: expected values separated by commas, quoted if they have a comma or a quote, got `{text[:80]}`."
    return DefinitionError(msg + '\nHint: as in CSV: `a,"b,c"`; `null` is null, `"null"` a text.')

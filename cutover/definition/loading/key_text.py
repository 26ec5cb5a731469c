r"""Keys as they are shown and as people type them; whatever is shown can be typed back, and is the same key then.

Three forms are read, and distinguished without doubt:

- values, as in CSV: `JFK,"a,b",null`
- columns with values: `origin=JFK, carrier="a,b", flight=null`
- a JSON object, as `--json` prints it: `{"origin": "JFK", "carrier": "a,b", "flight": null}`

In the first two `null` is null and `"null"` a text; a value in which a sign could be misread is in quotes. Control and
format characters are shown as escapes (`\n`, `\u202e`). In the project's CSV files an apostrophe stands before a text
that a spreadsheet would take for a formula. Both are read back.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from cutover.errors import DefinitionError
from cutover.output.cells import Quoted, escape_text, strip_guard, unescape_text

Scalar = str | int | float | bool | None
"""A value of a key as JSON holds it."""

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)', re.DOTALL)
_EMPTY = '""'
_MISREAD = re.compile(r'[,"=]|^[{\s]|\s$|^null\Z', re.DOTALL)


def format_values(values: Iterable[Scalar]) -> str:
    """Return the values of a key as in CSV; of no columns nothing."""
    return ",".join(map(_format_value, values))


def format_columns(key: Mapping[str, Scalar]) -> str:
    """Return a key as `origin=EWR, carrier=UA`; of no columns nothing."""
    return ", ".join(f"{escape_text(name)}={_format_value(value, empty=_EMPTY)}" for name, value in key.items())


def make_cells(values: Iterable[Scalar]) -> list[object]:
    """Return the values of a key for `write_rows`: the line's text then is what `format_values` would be read as."""
    return [_make_cell(value) for value in values]


def quote_ambiguous(text: str) -> str:
    """Return a text for `write_rows`: in quotes where a reader could take it for a null, a name or a part of a key."""
    return Quoted(text) if not text or _MISREAD.search(text) else text


def value_text(value: Scalar) -> str | None:
    """Return a value as the text that its column's type is read from; None for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def parse_key(text: str, columns: Sequence[str]) -> list[str | None]:
    """Return the value of each column as text, None for null, of a key in any of the forms.

    Raises:
        DefinitionError: A quote is left open, or the values are not those of the columns.
    """
    found = _parse_json(text, columns)
    if found is None and columns and re.match(rf"{re.escape(columns[0])}\s*=", text):
        found = _parse_columns(text, columns)
    if found is None:
        found = [] if not columns and not text else split_key(text)
    if len(found) != len(columns):
        named = ", ".join(columns) or "no columns"
        msg = f"KEY: expected {len(columns)} values ({named}), got {len(found)}: `{text[:80]}`."
        raise DefinitionError(msg + "\nHint: `a,b`; `null` for a null.")
    return found


def split_key(text: str) -> list[str | None]:
    """Split a key into its values; `null` is null, `"null"` a text.

    Raises:
        DefinitionError: A quote is left open, or text follows a closing one.
    """
    key: list[str | None] = []
    at = -1
    while at < len(text):
        match = _FIELD.match(text, at + 1)
        if match is None:
            raise _make_error(text)
        key.append(_parse_value(match))
        at = match.end()
    return key


def _parse_columns(text: str, columns: Sequence[str]) -> list[str | None]:
    found: list[str | None] = []
    at = 0
    for name in columns:
        head = re.compile(rf"{',' if found else ''}\s*{re.escape(name)}\s*=").match(text, at)
        match = None if head is None else _FIELD.match(text, head.end())
        if match is None:
            raise _make_error(text)
        found.append(_parse_value(match))
        at = match.end()
    if at != len(text):
        raise _make_error(text)
    return found


def _parse_json(text: str, columns: Sequence[str]) -> list[str | None] | None:
    """Return the values of a JSON object with these columns; None of anything else."""
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None
    if not isinstance(found, dict) or set(found) != set(columns):
        return None
    return [value_text(found[name]) for name in columns]


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
    return '"' + guarded.replace('"', '""') + '"' if _MISREAD.search(guarded) else guarded or empty


def _make_cell(value: Scalar) -> object:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quote_ambiguous(value)
    return value_text(value) if isinstance(value, bool) else value


def _make_error(text: str) -> DefinitionError:
    msg = f"KEY: expected values separated by commas, one with a comma or a quote in quotes, got `{text[:80]}`."
    return DefinitionError(msg + '\nHint: as CSV has it: `a,"b,c"`; `null` is null, `"null"` a text.')

"""Strict JSON reader for scenario files: UTF-8, one object, no duplicate fields, exact numbers."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from cutover.errors import DefinitionError

LARGEST_BYTES = 500_000_000
_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def load(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file; numbers with a point are decimals.

    Raises:
        DefinitionError: The file cannot be read, is empty, too large, of another encoding, or holds anything but one
            JSON object without doubled fields.
    """
    text = _text(_bytes(path), path.name)
    if not text.strip():
        _reject(path.name, "one JSON object", "an empty file")
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_make_object)
    except (ValueError, RecursionError) as error:
        actual = "objects nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        _reject(path.name, "JSON", actual)
    if not isinstance(document, dict):
        _reject(path.name, "one JSON object", f"a {type(document).__name__}")
    return document


def _bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            _reject(path.name, "a file", "a folder" if path.is_dir() else "something else")
        if path.stat().st_size > LARGEST_BYTES:
            _reject(path.name, f"at most {LARGEST_BYTES} bytes, which are read at once", str(path.stat().st_size))
        return path.read_bytes()
    except OSError as error:
        _reject(path.name, "a file that can be read", str(error.strerror))


def _text(content: bytes, name: str) -> str:
    encoding = next((encoding for mark, encoding in _MARKS.items() if content.startswith(mark)), None)
    if encoding is not None:
        _reject(name, "text in UTF-8", encoding, f"`iconv -f {encoding} -t UTF-8` converts it.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        actual = f"the byte 0x{content[error.start]:02x}, line {line}"
        _reject(name, "text in UTF-8", actual, "`iconv -f ISO-8859-1 -t UTF-8`, or from the encoding of the file.")


def _reject(name: str, expected: str, actual: str, hint: str = "") -> NoReturn:
    msg = f"Scenario `{name}`: expected {expected}, got {actual}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg) from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"the field `{twice[:80]}` twice in one object"
        raise ValueError(msg)
    return fields


def _no_constant(text: str) -> NoReturn:
    msg = f"{text}, which is not JSON"
    raise ValueError(msg)

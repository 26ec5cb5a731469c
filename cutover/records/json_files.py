"""Records of a JSON file: one per line, one after another, or the elements of one array, which an object may wrap.

A file that holds a single object with an array of objects, such as GeoJSON or the answer of an API, wraps its records.
Texts are split by Python's scanner and read in pieces, so that the size of the file does not matter.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from cutover.counts import count_noun
from cutover.errors import DefinitionError
from cutover.records.parsing.parsed_record import JsonObject
from cutover.records.record_files import (
    MAX_LINE,
    encode_value,
    format_name,
    read_file_blocks,
    read_file_lines,
    reject_line,
)
from cutover.records.reference.parse import parse_object

USUAL_ARRAYS = (
    "features",
    "data",
    "results",
    "records",
    "items",
    "Items",
    "rows",
    "value",
    "values",
    "events",
    "entries",
    "hits.hits",
)
"""Usual names of the array with the records, preferred where an object has several arrays of objects."""

MAX_DEPTH = 2
"""Depth of objects in which an array of records is looked for: `hits.hits` has a depth of two."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_LINE_BREAKS = re.compile(rb"[ \t]*[\r\n]+[ \t]*")
_POINT = ("longitude", "latitude", "coordinate_3")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLayout:
    """Place of the records in a JSON file."""

    form: Literal["lines", "values", "array"]  # an object per line; values one after another; elements of an array
    members: tuple[str, ...] = ()  # names that lead to the array in the only object of the file
    has_records_in_elements: bool = False  # GeoJSON and Elasticsearch: the record is a member of each element

    def describe(self) -> str | None:
        """Describe a layout other than one object per line; None for that one."""
        if self.form == "lines":
            return None
        if self.form == "values":
            return "JSON objects that span several lines"
        if not self.members:
            return "the elements of a JSON array"
        inner = " with the properties of each feature" if self.members[-1] == "features" else ""
        return f"the elements of the array `{format_name('.'.join(self.members))}`{inner}"


class _JsonText:
    """Text of a file, of which values are taken one after another."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 1
        self._blocks = read_file_blocks(path)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._place, self._is_complete = "", 0, False

    def peek(self) -> str:
        """Return the next character that is not a blank; empty at the end."""
        while True:
            match = _BLANKS.match(self._text, self._place)
            self._advance(match.end() if match else self._place)
            if self._place < len(self._text) or self._is_complete:
                return self._text[self._place : self._place + 1]
            self._fill()

    def take(self, character: str) -> None:
        """Take a character that has to be next."""
        if self.peek() != character:
            self.reject(f"`{character}`, got {self.peek() or 'the end of the file'!r}")
        self._place += 1

    def take_value(self) -> str:
        """Take the text of the next value."""
        self.peek()
        while True:
            problem = "the end of the file"
            try:
                _, end = _DECODER.raw_decode(self._text, self._place)
                if end < len(self._text) or self._is_complete:
                    value = self._text[self._place : end]
                    self._advance(end)
                    return value
            except RecursionError:
                reject_line(self.path, self.line, "JSON that is not nested so deeply")
            except json.JSONDecodeError as error:
                problem = error.msg
                at = self.line + self._text.count("\n", self._place, error.pos)
            if self._is_complete:
                reject_line(self.path, at, f"JSON, got {problem}")
            if len(self._text) - self._place > MAX_LINE:
                self.reject(f"at most {MAX_LINE:,} characters in a record, got more")
            self._fill()

    def reject(self, expected: str) -> NoReturn:
        """Reject the file for what comes next."""
        reject_line(self.path, self.line, expected)

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._place, end)
        self._place = end

    def _fill(self) -> None:
        """Read on; at least as much as remains of a value, so that a long one is not scanned too often."""
        parts = [self._text[self._place :]]
        wanted = len(parts[0])
        while wanted >= 0 and not self._is_complete:
            block = next(self._blocks, b"")
            self._is_complete = not block
            try:
                parts.append(self._decoder.decode(block, final=not block))
            except UnicodeDecodeError:
                self.reject("UTF-8, got other bytes")
            wanted -= len(parts[-1])
        self._text, self._place = "".join(parts), 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """Array of objects."""

    count: int
    names: frozenset[str]  # of the first element's members, and of the record in an element of GeoJSON


@dataclass(slots=True)
class _Outline:
    """Arrays of objects in the first object of a file."""

    names: set[str] = field(default_factory=set)  # of the object's members
    arrays: dict[tuple[str, ...], _Array] = field(default_factory=dict)  # by their paths

    def is_record(self, fields: Collection[str]) -> bool:
        """Return whether the object is a record: it has more of the fields than the elements of each array."""
        most = max((len(array.names & set(fields)) for array in self.arrays.values()), default=0)
        return len(self.names & set(fields)) > most


def find_json_layout(path: Path, names: Collection[str] = ()) -> JsonLayout:
    """Find the records of a JSON file.

    Args:
        path: The file.
        names: Names of fields of a record, as far as they are known: an object with more of them than the elements
            of its arrays is a record.

    Raises:
        DefinitionError: The file cannot be read, or several arrays may hold the records.
    """
    text = _JsonText(path)
    if text.peek() == "[":
        return JsonLayout(form="array")
    if text.peek() != "{":
        return JsonLayout(form="lines")
    outline, start = _Outline(), text.line
    try:
        _walk_object(text, outline, ())
        end, follower = text.line, text.peek()
    except DefinitionError:
        if _is_first_line_closed(path):
            return JsonLayout(form="lines")  # whose first line is invalid
        raise
    is_one_line = start == end and (not follower or text.line > end)
    if not follower and outline.arrays and not outline.is_record(names):
        members = _choose_array(path, outline.arrays)
        has_inner = ".".join(members) in {"features", "hits.hits"}
        return JsonLayout(form="array", members=members, has_records_in_elements=has_inner)
    return JsonLayout(form="lines" if is_one_line else "values")


def read_json_records(path: Path, layout: JsonLayout) -> Iterator[tuple[int, bytes]]:
    """Yield each record of a JSON file as (number of its first line, text without line breaks).

    Raises:
        DefinitionError: The file cannot be read, or is not JSON; a line of its own is not checked.
    """
    if layout.form == "lines":
        for number, line in read_file_lines(path):
            if stripped := line.strip():
                yield number, stripped
        return
    text = _JsonText(path)
    values = _take_values(text) if layout.form == "values" else _take_elements(text, layout.members)
    for number, value in values:
        record = _LINE_BREAKS.sub(b"", value.encode("utf-8", "surrogatepass"))  # no string contains a line break
        yield number, _unwrap(record) if layout.has_records_in_elements else record


def _take_values(text: _JsonText) -> Iterator[tuple[int, str]]:
    while text.peek():
        line = text.line
        yield line, text.take_value()


def _take_elements(text: _JsonText, members: Sequence[str]) -> Iterator[tuple[int, str]]:
    for name in members:
        text.take("{")
        while json.loads(text.take_value()) != name:
            text.take(":")
            _skip_value(text)
            text.take(",")
        text.take(":")
    text.take("[")
    while text.peek() != "]":
        line = text.line
        yield line, text.take_value()
        if text.peek() != "]":
            text.take(",")
    text.take("]")
    if not members and text.peek():
        text.reject("the end of the file after its array, got further text")


def _walk_object(text: _JsonText, outline: _Outline, path: tuple[str, ...]) -> None:
    text.take("{")
    while text.peek() != "}":
        name = json.loads(text.take_value())
        if not isinstance(name, str):
            text.reject(f"a name in quotes, got {name!r}")
        text.take(":")
        if not path:
            outline.names.add(name)
        start = text.peek()
        if start == "{" and len(path) + 1 < MAX_DEPTH:
            _walk_object(text, outline, (*path, name))
        elif start == "[":
            array = _read_array(text)
            if array is not None:
                outline.arrays[*path, name] = array
        else:
            text.take_value()
        if text.peek() != "}":
            text.take(",")
    text.take("}")


def _read_array(text: _JsonText) -> _Array | None:
    """Read an array in pieces; None if it is not one of objects."""
    text.take("[")
    count, first, is_of_objects = 0, "", True
    while text.peek() != "]":
        is_of_objects = is_of_objects and text.peek() == "{"
        value = text.take_value()
        first = first or value
        count += 1
        if text.peek() != "]":
            text.take(",")
    text.take("]")
    return _Array(count=count, names=_list_names(json.loads(first))) if count and is_of_objects else None


def _list_names(element: dict[str, Any]) -> frozenset[str]:
    inner = element.get("properties", element.get("_source"))
    return frozenset(element) | (frozenset(inner) if isinstance(inner, dict) else frozenset())


def _skip_value(text: _JsonText) -> None:
    """Skip a value; arrays and objects in pieces."""
    match text.peek():
        case "{":
            _walk_object(text, _Outline(), ())
        case "[":
            _read_array(text)
        case _:
            text.take_value()


def _is_first_line_closed(path: Path) -> bool:
    """Return whether the first line with a text ends like an object."""
    try:
        first = next((line.strip() for _, line in read_file_lines(path) if line.strip()), b"")
    except DefinitionError:  # longer than a line may be
        return False
    return first.endswith(b"}")


def _choose_array(path: Path, arrays: dict[tuple[str, ...], _Array]) -> tuple[str, ...]:
    usual = [members for name in USUAL_ARRAYS for members in arrays if ".".join(members) == name]
    if len(arrays) > 1 and not usual:
        _reject_arrays(path, arrays)
    return usual[0] if usual else next(iter(arrays))


def _reject_arrays(path: Path, arrays: dict[tuple[str, ...], _Array]) -> NoReturn:
    found = ", ".join(f"`{format_name('.'.join(members))}` ({array.count:,})" for members, array in arrays.items())
    expected = f"one array of records in the object, got {count_noun(len(arrays), 'array')}: {found}"
    name = ".".join(next(iter(arrays)))
    reject_line(path, 1, expected, hint=f"`jq -c '.{name}[]' FILE` writes the records of one, one per line.")


def _unwrap(text: bytes) -> bytes:
    """Return the record in an element of GeoJSON or of Elasticsearch's hits; the element if it has another form."""
    try:
        element = dict(parse_object(text.decode("utf-8", "surrogatepass")).members)
    except (ValueError, RecursionError):
        return text
    inner = element.get("properties" if "properties" in element else "_source")
    if not isinstance(inner, JsonObject):
        return text
    record = dict(inner.members)
    for name, value in _list_outer_members(element):
        record.setdefault(name, value)
    return _encode_members(record).encode("utf-8", "surrogatepass")


def _list_outer_members(element: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what describes the record outside of it: its id, and the coordinates of a point, else its geometry."""
    for name in ("id", "_id"):
        if name in element:
            yield "id", element[name]
    geometry = element.get("geometry")
    if not isinstance(geometry, JsonObject):
        return
    shape = dict(geometry.members)
    coordinates = shape.get("coordinates")
    if shape.get("type") == "Point" and isinstance(coordinates, list):
        yield from zip(_POINT, coordinates, strict=False)
    else:
        yield "geometry", geometry


def _encode_members(members: dict[str, Any]) -> str:
    return f"{{{','.join(f'{encode_value(name)}:{_encode(value)}' for name, value in members.items())}}}"


def _encode(value: Any) -> str:
    if isinstance(value, JsonObject):
        return _encode_members(dict(value.members))
    return f"[{','.join(map(_encode, value))}]" if isinstance(value, list) else encode_value(value)

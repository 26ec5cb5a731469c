"""Parser of one record in plain Python, with the rules of `cutover.records.parsing.limits`.

It also validates records before they are sent (`cutover produce`) and infers the columns of a draft (`cutover init`).
Spark's parser is tested against it.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import Field, JsonPath, Topic, Tree, build_tree, list_fields
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.parsing.binary_values import parse_protobuf_value
from cutover.records.parsing.parsed_record import (
    REASONS,
    UNPAIRED_SURROGATE,
    BeyondLimitsError,
    InvalidField,
    InvalidValueError,
    JsonNumber,
    JsonObject,
    ParsedRecord,
    has_long_number,
)
from cutover.records.reference.avro import parse_avro_value
from cutover.records.reference.from_csv import parse_csv_value, parse_text_value
from cutover.records.reference.from_json import parse_job_value, read_job_fields
from cutover.records.reference.scalars import check_json_type, parse_value

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_SHALLOW_BRACKETS = 400  # opening brackets that cannot exceed Python's recursion limit at any nesting


def parse_record(
    value: bytes | None, topic: Topic, log_time_micros: int | None = None, *, counts_unknown: bool = True
) -> ParsedRecord:
    """Parse the typed fields of one record, or find the first reason that it is malformed.

    Args:
        value: The value.
        topic: The topic.
        log_time_micros: Log timestamp, which is the event time of a topic of texts.
        counts_unknown: Count unknown fields of the `from_json` form, which takes a third of the time.
    """
    reason = find_value_defect(value, topic)
    if reason is not None or value is None:
        return ParsedRecord(reason=reason)
    if topic.parse == "text":
        return parse_text_value(value, log_time_micros, topic)
    if topic.parse == "from_json":
        return parse_job_value(value, topic, counts_unknown=counts_unknown)
    return _PARSERS[topic.parse](value, topic)


def _parse_strictly(value: bytes, topic: Topic) -> ParsedRecord:
    try:
        text = value.decode("utf-8")
        document = parse_object(text)
    except UnicodeDecodeError:
        return ParsedRecord(reason=Reason.UTF8)
    except (ValueError, RecursionError):
        return ParsedRecord(reason=Reason.JSON)
    return parse_fields(document, text, topic)


_PARSERS: dict[str, Callable[[bytes, Topic], ParsedRecord]] = {
    "strict": _parse_strictly,
    "avro": parse_avro_value,
    "protobuf": parse_protobuf_value,
    "csv": parse_csv_value,
}


def find_value_defect(value: bytes | None, topic: Topic) -> Reason | None:
    """Return the reason that a value is malformed regardless of its content, by its size; None if there is none."""
    if value is None:
        return Reason.NULL_VALUE
    if not value:
        return Reason.EMPTY
    return Reason.TOO_LARGE if len(value) > topic.max_value_bytes else None


def parse_object(text: str, *, within_limits: bool = True) -> JsonObject:
    """Parse a text that is exactly one JSON object.

    Args:
        text: The whole record.
        within_limits: Enforce the limits. If False, `NaN` is parsed as a float and numbers and names may have any
            length, so that the caller can describe the content of an invalid record.

    Raises:
        BeyondLimitsError: The text exceeds the limits.
        ValueError: The text is not exactly one JSON object.
        RecursionError: Without limits: the nesting is too deep for Python.
    """
    decoder = _STRICT if within_limits else _LENIENT
    if text.count("[") + text.count("{") <= _MAX_SHALLOW_BRACKETS:
        return _expect_object(decoder.decode(text))
    if within_limits and _measure_depth(text) > limits.MAX_DEPTH:
        msg = f"more than {limits.MAX_DEPTH:,} nested arrays and objects"
        raise BeyondLimitsError(msg)
    recursion_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(recursion_limit + 2 * limits.MAX_DEPTH)
    try:
        return _expect_object(decoder.decode(text))
    finally:
        sys.setrecursionlimit(recursion_limit)


def _expect_object(document: object) -> JsonObject:
    if not isinstance(document, JsonObject):
        kinds = {list: "an array", str: "a string", JsonNumber: "a number", bool: "a boolean"}
        msg = f"{kinds.get(type(document), 'null')}, not an object"
        raise ValueError(msg)  # noqa: TRY004 -- one kind of failure for all that is not JSON
    return document


def _measure_depth(text: str) -> int:
    """Measure how deep brackets nest outside of strings; the result is arbitrary if the text is not JSON."""
    depth = deepest = 0
    for mark in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _make_limited_object(members: list[tuple[str, Any]]) -> JsonObject:
    for name, _ in members:
        if len(name) > limits.MAX_NAME:
            msg = f"a name of more than {limits.MAX_NAME:,} characters"
            raise BeyondLimitsError(msg)
    return JsonObject(tuple(members))


def _make_limited_number(text: str) -> JsonNumber:
    if len(text) > limits.MAX_NUMBER and has_long_number(text):
        msg = f"a number of more than {limits.MAX_NUMBER:,} digits"
        raise BeyondLimitsError(msg)
    return JsonNumber(text)


def _reject_constant(text: str) -> NoReturn:
    msg = f"{text}, which is not valid JSON"
    raise BeyondLimitsError(msg)


def _make_decoder(
    pairs: Callable[[list[tuple[str, Any]]], JsonObject],
    number: Callable[[str], JsonNumber],
    constant: Callable[[str], Any],
) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=number, parse_float=number, parse_constant=constant)


_STRICT = _make_decoder(_make_limited_object, _make_limited_number, _reject_constant)
_LENIENT = _make_decoder(lambda members: JsonObject(tuple(members)), JsonNumber, float)


def parse_fields(document: JsonObject, text: str, topic: Topic) -> ParsedRecord:
    """Parse the columns of a JSON object, and collect all invalid ones and the first reason.

    Args:
        document: The object.
        text: Its text, from which columns of the `from_json` form are read.
        topic: A topic of the strict form.
    """
    layout = _make_layout(topic)
    reader = _StrictReader(layout)
    reader.read(document)
    values, invalid_fields = reader.values, list(reader.invalid_fields.values())
    if layout.job_fields:
        job_values, invalid_job_fields = read_job_fields(text, layout.job_fields, topic)
        values |= job_values
        invalid_fields += invalid_job_fields
    if len(invalid_fields) > 1:
        order = list(values)
        invalid_fields.sort(key=lambda invalid: order.index(invalid.name))
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values=values,
        unknown=len({name for name, _ in document.members} - layout.names),
        invalid_fields=tuple(invalid_fields),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StrictColumn:
    """Column of the strict form, and how Spark reads it."""

    field: Field
    inner_path: JsonPath  # in an array, which is read as VARIANT
    is_variant: bool  # Spark reads the value as VARIANT
    is_event_time: bool
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicLayout:
    """Columns of a topic by where they are read."""

    all_columns: tuple[str, ...]  # in schema order
    strict_columns: tuple[_StrictColumn, ...]
    tree: Tree  # of strict columns
    job_fields: tuple[Field, ...]  # of the `from_json` form
    names: frozenset[str | int]  # top-level fields


@lru_cache(maxsize=256)
def _make_layout(topic: Topic) -> _TopicLayout:
    fields = list_fields(topic)
    strict_columns = tuple(
        _StrictColumn(
            field=field,
            inner_path=field.path[len(_select_outer_path(field.path)) :],
            is_variant=_is_read_as_variant(field),
            is_event_time=field.name == topic.event_time,
            is_required=not field.nullable or field.name == topic.event_time,
        )
        for field in fields
        if field.parse == "strict"
    )
    by_path: dict[JsonPath, list[_StrictColumn]] = {}
    for column in strict_columns:
        by_path.setdefault(_select_outer_path(column.field.path), []).append(column)
    return _TopicLayout(
        all_columns=tuple(field.name for field in fields),
        strict_columns=strict_columns,
        tree=build_tree(list(by_path.items())),
        job_fields=tuple(field for field in fields if field.parse == "from_json"),
        names=frozenset(field.path[0] for field in fields),
    )


class _StrictReader:
    """Reader of the strict columns of one record."""

    def __init__(self, layout: _TopicLayout) -> None:
        self._layout = layout
        self.values: dict[str, Any] = dict.fromkeys(layout.all_columns)
        self.invalid_fields: dict[str, InvalidField] = {}

    def read(self, document: JsonObject) -> None:
        """Read columns from the record's object."""
        self._read_object(document, self._layout.tree, is_last=True)
        for column in self._layout.strict_columns:
            name = column.field.name
            if column.is_required and self.values[name] is None and name not in self.invalid_fields:
                self._add_invalid(column, Reason.EVENT_TIME if column.field.nullable else Reason.MISSING, None)

    def _read_object(self, document: JsonObject, tree: Tree, *, is_last: bool) -> None:
        """Read the members; of equal names the last one is used, but Spark checks the types of the others too."""
        last = {name: place for place, (name, _) in enumerate(document.members)}
        for place, (name, value) in enumerate(document.members):
            if value is None or name not in tree:
                continue
            node, is_used = tree[name], is_last and last[name] == place
            if not isinstance(node, list):
                if isinstance(value, JsonObject):
                    self._read_object(value, node, is_last=is_used)
                else:
                    self._add_invalid(next(_list_leaves(node)), Reason.TYPE, value)
                continue
            for column in node:
                if column.field.name not in self.invalid_fields:
                    self._read_column(column, value, is_used=is_used)

    def _read_column(self, column: _StrictColumn, value: Any, *, is_used: bool) -> None:
        place = value
        try:
            if column.inner_path:
                place = _select_element(value, column.inner_path)
            if not is_used:
                _check_overridden(column, place)
            elif place is not None:
                self.values[column.field.name] = _parse_place(column, place)
        except InvalidValueError as error:
            is_invalid_time = column.is_event_time and error.has_right_type
            self._add_invalid(column, Reason.EVENT_TIME if is_invalid_time else Reason.TYPE, place)

    def _add_invalid(self, column: _StrictColumn, reason: Reason, value: Any) -> None:
        field = column.field
        self.values[field.name] = None
        self.invalid_fields[field.name] = InvalidField(
            name=field.name, type=field.type, time_format=field.time_format, reason=reason, value=value
        )


def _select_outer_path(path: JsonPath) -> JsonPath:
    """Select the path up to its first index; from there on Spark reads VARIANT."""
    return path[: next((place for place, step in enumerate(path) if isinstance(step, int)), len(path))]


def _list_leaves(node: Any) -> Iterator[_StrictColumn]:
    if isinstance(node, list):
        yield from node
    else:
        for inner in node.values():
            yield from _list_leaves(inner)


def _select_element(value: Any, path: JsonPath) -> Any:
    """Select a value in an array that is read as VARIANT; None if it, or a parent, is null or missing.

    Raises:
        InvalidValueError: A parent is neither an object nor an array, as the path says.
    """
    if not _is_variant(value):
        raise InvalidValueError
    for step in path:
        if value is None:
            return None
        if isinstance(step, int):
            if not isinstance(value, list):
                raise InvalidValueError
            value = value[step] if step < len(value) else None
        elif isinstance(value, JsonObject):
            value = dict(value.members).get(step)
        else:
            raise InvalidValueError
    return value


def _check_overridden(column: _StrictColumn, value: Any) -> None:
    """Check a value that a later member of the same name overrides."""
    if column.inner_path or column.is_variant:
        if not _is_variant(value):
            raise InvalidValueError
    else:
        check_json_type(value, column.field.type, column.field.time_format)


def _parse_place(column: _StrictColumn, value: Any) -> Any:
    if column.is_variant and not _is_variant(value):
        raise InvalidValueError
    return parse_value(value, column.field.type, column.field.time_format)


def _is_read_as_variant(field: Field) -> bool:
    """Return whether Spark reads the value as VARIANT, which preserves its JSON type."""
    is_number_time = field.type == "timestamp" and field.time_format in EPOCH_FORMATS
    return field.type not in {"boolean", "int", "bigint", "double"} and not is_number_time


def _is_variant(value: Any) -> bool:
    """Return whether VARIANT can represent a value: its texts are Unicode, and its objects have distinct names."""
    if isinstance(value, str):
        return value.isascii() or not UNPAIRED_SURROGATE.search(value)
    if isinstance(value, list):
        return all(map(_is_variant, value))
    if isinstance(value, JsonObject):
        names = {name for name, _ in value.members}
        return len(names) == len(value.members) and all(_is_variant(inner) for _, inner in value.members)
    return True

"""Parser of one record in plain Python, with the rules of `cutover.records.parsing.limits`.

It also validates records before they are sent (`cutover produce`) and infers the columns of a draft (`cutover init`).
Spark's parser is tested against it.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from cutover.definition.model.json_fields import JsonPath, Tree, build_tree
from cutover.definition.model.times import EPOCH_FORMATS
from cutover.definition.model.topic import Field, Topic, list_fields
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.reference.from_json import parse_job_value, read_job_fields
from cutover.records.reference.scalars import check_json_type, parse_value
from cutover.records.reference.values import (
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

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MAX_SHALLOW_BRACKETS = 400  # opening brackets that cannot exceed Python's recursion limit at any nesting


def parse_record(value: bytes | None, topic: Topic) -> ParsedRecord:
    """Parse the typed fields of one record, or find the first reason that it is malformed."""
    reason = find_value_defect(value, topic)
    if reason is not None or value is None:
        return ParsedRecord(reason=reason)
    if topic.parse == "from_json":
        return parse_job_value(value, topic)
    try:
        text = value.decode("utf-8")
        document = parse_object(text)
    except UnicodeDecodeError:
        return ParsedRecord(reason=Reason.UTF8)
    except (ValueError, RecursionError):
        return ParsedRecord(reason=Reason.JSON)
    return parse_fields(document, text, topic)


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
    fields = list_fields(topic)
    reader = _StrictReader(topic)
    reader.read([field for field in fields if field.parse == "strict"], document)
    values, invalid_fields = reader.values, list(reader.invalid_fields.values())
    job_fields = [field for field in fields if field.parse == "from_json"]
    if job_fields:
        job_values, invalid_job_fields = read_job_fields(text, job_fields, topic)
        values |= job_values
        invalid_fields += invalid_job_fields
    order = {field.name: place for place, field in enumerate(fields)}
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values={field.name: values[field.name] for field in fields},
        unknown=len({name for name, _ in document.members} - {field.path[0] for field in fields}),
        invalid_fields=tuple(sorted(invalid_fields, key=lambda invalid: order[invalid.name])),
    )


class _StrictReader:
    """Reader of the strict columns of one record."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.values: dict[str, Any] = {}
        self.invalid_fields: dict[str, InvalidField] = {}

    def read(self, fields: Sequence[Field], document: JsonObject) -> None:
        """Read columns from the record's object."""
        self.values = {field.name: None for field in fields}
        by_path: dict[JsonPath, list[Field]] = {}
        for field in fields:
            by_path.setdefault(_select_outer_path(field.path), []).append(field)
        self._read_object(document, build_tree(list(by_path.items())), is_last=True)
        for field in fields:
            is_required = not field.nullable or field.name == self._topic.event_time
            if self.values[field.name] is None and field.name not in self.invalid_fields and is_required:
                self._add_invalid(field, Reason.EVENT_TIME if field.nullable else Reason.MISSING, None)

    def _read_object(self, document: JsonObject, tree: Tree, *, is_last: bool) -> None:
        """Read the members; of equal names the last one is used, but Spark checks the types of the others too."""
        last = {name: place for place, (name, _) in enumerate(document.members)}
        for place, (name, value) in enumerate(document.members):
            if name not in tree or value is None:
                continue
            node, is_used = tree[name], is_last and last[name] == place
            if not isinstance(node, list):
                if isinstance(value, JsonObject):
                    self._read_object(value, node, is_last=is_used)
                else:
                    self._add_invalid(next(_list_leaves(node)), Reason.TYPE, value)
                continue
            for field in node:
                if field.name not in self.invalid_fields:
                    self._read_field(field, value, is_used=is_used)

    def _read_field(self, field: Field, value: Any, *, is_used: bool) -> None:
        inner_path = field.path[len(_select_outer_path(field.path)) :]
        place = value
        try:
            place = _select_element(value, inner_path)
            if not is_used:
                _check_overridden(field, place, is_element=bool(inner_path))
            elif place is not None:
                self.values[field.name] = _parse_place(field, place)
        except InvalidValueError as error:
            is_invalid_time = field.name == self._topic.event_time and error.has_right_type
            self._add_invalid(field, Reason.EVENT_TIME if is_invalid_time else Reason.TYPE, place)

    def _add_invalid(self, field: Field, reason: Reason, value: Any) -> None:
        self.values[field.name] = None
        self.invalid_fields[field.name] = InvalidField(
            name=field.name, type=field.type, time_format=field.time_format, reason=reason, value=value
        )


def _select_outer_path(path: JsonPath) -> JsonPath:
    """Select the path up to its first index; from there on Spark reads VARIANT."""
    return path[: next((place for place, step in enumerate(path) if isinstance(step, int)), len(path))]


def _list_leaves(node: Any) -> Iterator[Field]:
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
    if path and not _is_variant(value):
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


def _check_overridden(field: Field, value: Any, *, is_element: bool) -> None:
    """Check a value that a later member of the same name overrides."""
    if is_element or _is_read_as_variant(field):
        if not _is_variant(value):
            raise InvalidValueError
    else:
        check_json_type(value, field.type, field.time_format)


def _parse_place(field: Field, value: Any) -> Any:
    if _is_read_as_variant(field) and not _is_variant(value):
        raise InvalidValueError
    return parse_value(value, field.type, field.time_format)


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

"""One record from its bytes, by Python's own JSON parser and the rules of `cutover.records.parsing.limits`."""

import json
import re
import sys
from dataclasses import dataclass, field
from typing import Any, NoReturn

from cutover.definition.model.schema import Field, fields
from cutover.definition.model.topic import Topic
from cutover.records.classes import Reason
from cutover.records.parsing import limits
from cutover.records.reference.values import Number, Pairs, UnfitError, check_kind, value_of

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRecord:
    """What the bytes of one record say."""

    reason: Reason | None = None  # None: well formed, so far as no expression is asked
    values: dict[str, Any] = field(default_factory=dict)  # by column; timestamps in microseconds since 1970
    unknown: int = 0  # distinct top-level fields that the schema does not name


def parse(value: bytes | None, topic: Topic) -> ParsedRecord:
    """Return the typed fields of one record, or the first reason why it is malformed."""
    refused = _find_refusal(value, topic)
    if refused is not None or value is None:
        return ParsedRecord(reason=refused)
    try:
        found = _object(value.decode("utf-8"))
    except UnicodeDecodeError:
        return ParsedRecord(reason=Reason.UTF8)
    except (ValueError, RecursionError):
        return ParsedRecord(reason=Reason.JSON)
    return _parse_fields(found, topic)


def _find_refusal(value: bytes | None, topic: Topic) -> Reason | None:
    if value is None:
        return Reason.NULL_VALUE
    if not value:
        return Reason.EMPTY
    return Reason.TOO_LARGE if len(value) > topic.max_value_bytes else None


def _object(text: str) -> Pairs:
    """Return the name-value pairs of a text that is exactly one JSON object.

    Raises:
        ValueError: It is not, or goes beyond the limits.
    """
    if _depth(text) > limits.MAX_DEPTH:
        msg = "too deep"
        raise ValueError(msg)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 2 * limits.MAX_DEPTH)
    try:
        found = json.loads(
            text, object_pairs_hook=_pairs, parse_int=_number, parse_float=_number, parse_constant=_no_constant
        )
    finally:
        sys.setrecursionlimit(before)
    if not isinstance(found, Pairs):
        msg = "not an object"
        raise ValueError(msg)  # noqa: TRY004 -- one kind of failure for all that is not JSON
    return found


def _depth(text: str) -> int:
    """Return how deep brackets nest outside of strings; on text that is not JSON, some number."""
    depth = deepest = 0
    for mark in re.findall(r"[\[{\]}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _pairs(found: list[tuple[str, Any]]) -> Pairs:
    if any(len(name) > limits.MAX_NAME for name, _ in found):
        msg = "name too long"
        raise ValueError(msg)
    return Pairs(tuple(found))


def _number(text: str) -> Number:
    if sum(c.isdigit() for c in text) > limits.MAX_NUMBER:
        msg = "number too long"
        raise ValueError(msg)
    return Number(text)


def _no_constant(text: str) -> NoReturn:
    msg = f"{text} is not JSON"
    raise ValueError(msg)


def _parse_fields(found: Pairs, topic: Topic) -> ParsedRecord:
    known = fields(topic)
    values: dict[str, Any] = {item.name: None for item in known}
    by_name = {item.name: item for item in known}
    not_a_time = False
    try:
        for name, given in found.items:
            if name in by_name:
                check_kind(given, by_name[name].type, topic.time_format)
        for name, given in dict(found.items).items():  # of a doubled name the last one
            if name in by_name:
                values[name], fits = _value(given, by_name[name], topic)
                not_a_time = not_a_time or not fits
    except UnfitError:
        return ParsedRecord(reason=Reason.TYPE)
    unknown = len({name for name, _ in found.items} - set(by_name))
    return ParsedRecord(
        reason=_find_absent(values, known, topic, not_a_time=not_a_time), values=values, unknown=unknown
    )


def _value(given: Any, item: Field, topic: Topic) -> tuple[Any, bool]:
    """Return the typed value, and False for an event time of the right kind that is no time."""
    try:
        return value_of(given, item.type, topic.time_format), True
    except UnfitError as unfit:
        if item.name == topic.event_time and unfit.right_kind:
            return None, False
        raise


def _find_absent(values: dict[str, Any], known: tuple[Field, ...], topic: Topic, *, not_a_time: bool) -> Reason | None:
    for item in known:
        is_given = item.name == topic.event_time and not_a_time
        if not item.nullable and values[item.name] is None and not is_given:
            return Reason.MISSING
    return Reason.EVENT_TIME if values[topic.event_time] is None else None

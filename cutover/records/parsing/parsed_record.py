"""Parsed JSON values and records, and why they are invalid, of both forms of parsing in plain Python."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Context
from typing import Any

from cutover.definition.model.topic import Field, JsonPath, Topic, list_fields
from cutover.records.classes import Reason
from cutover.records.parsing import limits

FIRST_DATE, AFTER_LAST_DATE = date(1000, 1, 1), date(9000, 1, 1)
EXACT = Context(prec=76)
RANGES = {"int": 2**31, "bigint": 2**63}
_FRACTION = re.compile("[.eE]")
UNPAIRED_SURROGATE = re.compile("[\ud800-\udfff]")

REASONS = (Reason.TYPE, Reason.MISSING, Reason.EVENT_TIME)
"""Reasons of invalid fields, in the order in which the first one applies to the record."""


@dataclass(frozen=True, slots=True)
class JsonObject:
    """JSON object as a list of members, which may repeat names."""

    members: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """JSON number in its original text."""

    text: str

    @property
    def is_whole(self) -> bool:
        """Return whether the text has neither a fraction nor an exponent."""
        return self.text.isdigit() or not _FRACTION.search(self.text)


class InvalidValueError(Exception):
    """Value that is invalid for its type; `has_right_type`: its JSON type is right, but not the value."""

    def __init__(self, *, has_right_type: bool = False) -> None:
        super().__init__("invalid value" if has_right_type else "wrong JSON type")
        self.has_right_type = has_right_type


class BeyondLimitsError(ValueError):
    """JSON that exceeds `cutover.records.parsing.limits`, or contains `NaN` or `Infinity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidField:
    """Field of a record that is invalid for its type."""

    name: str
    type: str  # in the schema
    time_format: str
    reason: Reason  # TYPE, MISSING or EVENT_TIME
    value: Any  # from the JSON: None, bool, str, JsonNumber, JsonObject or list


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRecord:
    """Typed fields of one record, or the reason that it is malformed."""

    reason: Reason | None = None  # None: well formed, before expressions are evaluated
    values: dict[str, Any] = field(default_factory=dict)  # by column; timestamps in microseconds since 1970
    unknown: int = 0  # distinct top-level fields that are not in the schema
    invalid_fields: tuple[InvalidField, ...] = ()  # in the order of the schema


def collect_fields(topic: Topic, read: Callable[[Field], Any], *, unknown: int) -> ParsedRecord:
    """Collect the columns of a record that is no JSON, all invalid ones, and the first reason.

    Args:
        topic: The topic.
        read: Returns the value of a column, None if it is absent; raises `InvalidValueError`.
        unknown: Fields that no column is read from.
    """
    values: dict[str, Any] = {}
    invalid_fields = []
    for column in list_fields(topic):
        is_event_time, reason = column.name == topic.event_time, None
        try:
            value = values[column.name] = read(column)
        except InvalidValueError:
            values[column.name] = None
            reason = Reason.EVENT_TIME if is_event_time else Reason.TYPE
        else:
            if value is None and not column.nullable:
                reason = Reason.MISSING
            elif value is None and is_event_time:
                reason = Reason.EVENT_TIME
        if reason is not None:
            invalid_fields.append(
                InvalidField(
                    name=column.name, type=column.type, time_format=column.time_format, reason=reason, value=None
                )
            )
    return ParsedRecord(
        reason=min((invalid.reason for invalid in invalid_fields), key=REASONS.index, default=None),
        values=values,
        unknown=unknown,
        invalid_fields=tuple(invalid_fields),
    )


def select_member(value: Any, path: JsonPath) -> Any:
    """Select a value in parsed JSON; None if it, or a parent, is missing or of another kind."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = dict(value.members).get(step) if isinstance(value, JsonObject) else None
    return value


def has_long_number(text: str) -> bool:
    """Return whether a number has more digits than any parser takes; a zero before the point may not count."""
    if len(text) <= limits.MAX_NUMBER:
        return False
    leading_zero = re.match("-?0(?![.][0-9]*[eE])(?=[.eE])", text) is not None
    return sum(character.isdigit() for character in text) - leading_zero > limits.MAX_NUMBER

"""Classes of (record, window) pairs: the first one that applies, in order, on both paths (batch has no `late`)."""

from enum import StrEnum


class Class(StrEnum):
    """Class of a (record, window) pair; a record without a window (malformed, filtered) is one pair."""

    MALFORMED = "malformed"
    FILTERED = "filtered"
    FUTURE = "future"
    DUPLICATE = "duplicate"
    LATE = "late"
    ACCEPTED = "accepted"


WITH_POSITIONS = (Class.MALFORMED, Class.FUTURE, Class.DUPLICATE, Class.LATE)
"""Classes whose records are stored individually: partition, offset, event time and reason."""


class Reason(StrEnum):
    """Reason that a record is malformed: the first one that applies, in this order."""

    NULL_VALUE = "null_value"  # no value at all (a tombstone)
    EMPTY = "empty"  # zero bytes
    TOO_LARGE = "too_large"  # more bytes than the topic's `max_value_bytes`
    UTF8 = "utf8"  # not valid UTF-8
    JSON = "json"  # not exactly one JSON object by RFC 8259, or beyond `cutover.records.parsing.limits`
    AVRO = "avro"  # of a topic in Avro: not a zero byte, an id and a record as the schema of that id says
    PROTOBUF = "protobuf"  # of a topic in Protobuf: no message of the topic's type
    SCHEMA = "schema"  # the registry has no Avro schema of its id from which records can be read, or another message
    TYPE = "type"  # a field has another JSON type than its column, or a value out of range
    MISSING = "missing"  # a `NOT NULL` field is absent or null
    EVENT_TIME = "event_time"  # the event time is absent, null, not a time, or out of range
    EXPRESSION = "expression"  # an expression of the definition fails on this record

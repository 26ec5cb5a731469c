"""Columns in the schemas of writers: which are read, which make a schema incompatible, and the decoder in Python."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cutover.definition import JsonField, Topic
from cutover.records.classes import Reason
from cutover.records.parsing import writer_schemas
from cutover.records.parsing.avro_layout import make_avro_layout
from cutover.records.parsing.writer_schemas import WriterSchema
from cutover.records.reference.parse import parse_record
from tests.support.rows.avro_values import ListedSchemas, decimal_type, encode

SCHEMA = "v {kind}, at timestamp NOT NULL"


def topic_of(kind: str, **field: Any) -> Topic:
    return Topic(
        name="t", schema=SCHEMA.format(kind=kind), event_time="at", parse="avro", fields={"v": JsonField(**field)}
    )


def schema_of(kind: Any) -> dict[str, Any]:
    time = {"type": "long", "logicalType": "timestamp-millis"}
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}, {"name": "at", "type": time}]}


@pytest.fixture
def schemas() -> Iterator[ListedSchemas]:
    listed = ListedSchemas()
    writer_schemas.bind_source(listed)
    yield listed
    writer_schemas.bind_source(None)


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
DAY = {"type": "int", "logicalType": "date"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


@pytest.mark.parametrize(
    ("column", "kind", "reason"),
    [
        ("bigint", "int", None),
        ("bigint", ["null", "long"], None),
        ("bigint", ["long"], None),
        ("bigint", "null", None),
        ("int", "long", Reason.TYPE),
        ("bigint", MICROS, Reason.TYPE),
        ("int", DAY, Reason.TYPE),
        ("bigint", "string", Reason.TYPE),
        ("bigint", ["null", "long", "string"], Reason.TYPE),
        ("bigint", ["null"], Reason.TYPE),
        ("double", "long", None),
        ("string", ENUM, None),
        ("string", {"type": "string", "logicalType": "uuid"}, None),
        ("string", "bytes", Reason.TYPE),
        ("date", DAY, None),
        ("date", "int", Reason.TYPE),
        ("timestamp", LOCAL, Reason.TYPE),
        ("timestamp", "long", Reason.TYPE),  # the definition says `iso`
        ("timestamp", "string", None),
        ("decimal(10,2)", decimal_type(10, 2), None),
        ("decimal(10,2)", decimal_type(11, 2), Reason.TYPE),
        ("decimal(10,2)", decimal_type(5, 3), Reason.TYPE),
        ("decimal(10,2)", decimal_type(39, 2), Reason.TYPE),
        ("decimal(12,2)", "int", None),
        ("decimal(11,2)", "int", Reason.TYPE),
        ("decimal(10,2)", "double", Reason.TYPE),
        ("string", {"type": "array", "items": "null"}, Reason.SCHEMA),
        ("string", {"type": "array", "items": {"type": "record", "name": "X", "fields": []}}, Reason.SCHEMA),
        ("string", {"type": "array", "items": {"type": "fixed", "name": "X", "size": 0}}, Reason.SCHEMA),
        ("string", ["null", "R"], Reason.SCHEMA),
        ("string", "Unknown", Reason.SCHEMA),
        ("string", {"type": "unknown"}, Reason.SCHEMA),
    ],
)
def test_types_that_a_column_is_read_from(column: str, kind: Any, reason: Reason | None) -> None:
    schema = WriterSchema(id=1, text=json.dumps(schema_of(kind)))

    assert make_avro_layout(schema, topic_of(column)).reason is reason


@pytest.mark.parametrize("document", ['"string"', '["null", "string"]', "7", "null", '{"type": "record"}'])
def test_a_schema_of_no_record_is_rejected(document: str) -> None:
    assert make_avro_layout(WriterSchema(id=1, text=document), topic_of("string")).reason is Reason.SCHEMA


def test_a_field_that_the_writer_lacks_is_null(schemas: ListedSchemas) -> None:
    schema = schema_of("long")
    schemas.schemas = {1: schema}
    value = encode(1, json.loads(json.dumps(schema).replace('"logicalType"', '"x"')), {"v": 7, "at": 1_772_445_600_000})

    record = parse_record(value, topic_of("string", path="other.place"))

    assert (record.reason, record.values["v"], record.unknown) == (None, None, 1)


def test_a_parent_that_is_no_record_is_a_wrong_type() -> None:
    schema = WriterSchema(id=1, text=json.dumps(schema_of("long")))

    assert make_avro_layout(schema, topic_of("string", path="v.inner")).reason is Reason.TYPE


def test_a_schema_that_is_not_there_makes_records_malformed(schemas: ListedSchemas) -> None:
    assert parse_record(b"\0\0\0\0\x07abc", topic_of("string")).reason is Reason.SCHEMA
    assert schemas.requests == [7]

"""Values in Avro: Spark's `from_avro` with many schemas of writers, and the plain-Python decoder, agree on each."""

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutover.definition import JsonField, Topic
from cutover.records.parsing import writer_schemas
from cutover.records.reference.parse import parse_record
from tests.spec.test_from_json import list_differences
from tests.support.rows.avro_values import (
    NASTY_SCHEMA,
    PIPELINE,
    TOPIC,
    ListedSchemas,
    draw_record,
    draw_schema,
    encode,
    first_schema,
    list_nasty_payloads,
    wrap,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS, SCHEMAS = 400, 6
_DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.fixture
def schemas() -> Iterator[ListedSchemas]:
    """Return schemas of the test, by which this process parses until it ends."""
    listed = ListedSchemas()
    writer_schemas.bind_source(listed)
    yield listed
    writer_schemas.bind_source(None)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_spark_and_the_reference_agree(*, seed: int, spark: "SparkSession", schemas: ListedSchemas) -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test
    schemas.known.clear()
    schemas.schemas = {1: first_schema(), **{number: draw_schema(draw) for number in range(2, SCHEMAS)}}
    numbers = [draw.choice(list(schemas.schemas)) for _ in range(RECORDS)]

    records = [draw_record(draw, number, schemas.schemas[number]) for number in numbers]

    assert list_differences(spark, records, PIPELINE) == []


@pytest.mark.quick
def test_nasty_bytes_are_read_alike(spark: "SparkSession", schemas: ListedSchemas) -> None:
    schemas.schemas = {1: NASTY_SCHEMA}
    records = [None, b"", b"\0", *(wrap(1, payload) for payload in list_nasty_payloads()), wrap(2, b"")]

    assert list_differences(spark, records, PIPELINE) == []
    accepted = sum(parse_record(record, PIPELINE.source).reason is None for record in records)
    assert len(records) / 6 < accepted < len(records) / 2


ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "db.shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "price", "type": {"type": "fixed", "name": "Price", "size": 4, **_DECIMAL}},
        {"name": "other", "type": ["null", "Price"]},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "db",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "db.shop.Value"]},
        {"name": "ts_ms", "type": "long"},
        {"name": "TS_MS", "type": "string"},
        {"name": "__is_read", "type": "string"},
        {"name": "r1", "type": {"type": "record", "name": "r1", "namespace": "", "fields": []}},
    ],
}
CHANGES = replace(
    PIPELINE,
    source=Topic(
        name="t",
        schema="id bigint, old bigint, kind string, was string, price decimal(9,2), other decimal(12,3), at timestamp",
        event_time="at",
        parse="avro",
        fields={
            "id": JsonField(path="after.id"),
            "old": JsonField(path="before.id"),
            "kind": JsonField(path="after.kind"),
            "was": JsonField(path="before.kind"),
            "price": JsonField(path="after.price"),
            "other": JsonField(path="after.other"),
            "at": JsonField(path="ts_ms", time_format="millis"),
        },
    ),
    key=("kind",),
)
INVALID = (
    {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 20, "scale": 2},
    {"type": "enum", "name": "E", "symbols": ["A-B"]},
    {"type": "enum", "name": "E", "symbols": ["A", "A"]},
    {"type": "record", "name": "string", "fields": []},
    {"type": "record", "name": "a b", "fields": []},
    {"type": "fixed", "name": "F", "size": -1},
    ["null", "null"],
    ["null", ["string"]],
    [{"type": "int", "logicalType": "date"}, "int"],
    {"type": "array", "items": "null"},
    "Simple",
    {"type": "bytes", "logicalType": "decimal", "precision": 0},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 9},
    {"type": "long", "logicalType": "timestamp-weeks"},
    {"type": "error", "name": "X", "fields": [{"name": "x", "type": "float"}]},
    {"type": {"type": "array", "items": {"type": "map", "values": "int"}}},
)


def test_change_events_with_one_type_at_several_places(spark: "SparkSession", schemas: ListedSchemas) -> None:
    schemas.schemas = {1: ENVELOPE}
    row = {"id": 7, "kind": "B", "price": Decimal("1.25"), "other": Decimal("-3.50")}
    others = {"TS_MS": "x", "__is_read": "y", "r1": {}, "ts_ms": 1_772_445_600_000}
    rows = [{"before": before, "after": after, **others} for before in (None, row) for after in (None, row)]
    records = [encode(1, ENVELOPE, item) for item in rows]

    assert list_differences(spark, [*records, records[-1][:-3]], CHANGES) == []
    last = parse_record(records[-1], CHANGES.source)
    assert last.reason is None
    assert (last.values["old"], last.values["kind"], last.values["other"]) == (7, "B", Decimal("-3.5"))


def test_schemas_that_are_invalid_or_odd_make_no_plan_fail(spark: "SparkSession", schemas: ListedSchemas) -> None:
    fields = {"id": "long", "at": {"type": "long", "logicalType": "timestamp-millis"}}
    for number, kind in enumerate(INVALID, 1):
        listed = [{"name": "odd", "type": kind}, *({"name": name, "type": inner} for name, inner in fields.items())]
        schemas.schemas[number] = {"type": "record", "name": "Simple", "fields": listed}
    others: tuple[Any, ...] = ("string", [], {}, 7, True, {"type": []}, {"type": "record"}, {"type": "enum", "name": 7})
    schemas.schemas |= dict(enumerate(others, 100))
    records = [wrap(number, bytes(length)) for number in schemas.schemas for length in (0, 3, 12)]
    odd = replace(TOPIC, schema="id bigint NOT NULL, odd double, at timestamp", fields={})

    for topic in (odd, replace(odd, schema="id bigint NOT NULL, odd decimal(30,9), at timestamp")):
        assert list_differences(spark, records, replace(PIPELINE, source=topic, key=("id",))) == []


def test_forty_schemas_in_one_read(spark: "SparkSession", schemas: ListedSchemas) -> None:
    draw = random.Random("forty")  # noqa: S311 -- drawn values of a test
    schemas.schemas = {number: draw_schema(draw) for number in range(1, 41)}

    records = [draw_record(draw, number, schema) for number, schema in schemas.schemas.items() for _ in range(5)]

    assert list_differences(spark, records, PIPELINE) == []

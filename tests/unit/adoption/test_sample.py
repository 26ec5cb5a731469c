"""Sample of a topic in Avro: columns by the schemas of the writers, and a definition that reads the same values."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cutover.adoption.completion import complete_draft
from cutover.adoption.draft import Stated
from cutover.adoption.hypotheses import verify
from cutover.adoption.sample import RecordSampler
from cutover.errors import LogError
from cutover.log.kafka import RawRecord
from cutover.records.parsing import writer_schemas
from cutover.timestamps import to_micros
from tests.support.rows.avro_values import ListedSchemas, decimal_type, encode
from tests.unit.adoption.test_hypotheses import DRAFT, NOON, PAYMENTS, SHAPE, read_log, search, take_first

FIELDS: list[dict[str, Any]] = [
    {"name": "merchant", "type": "string"},
    {"name": "amount", "type": ["null", decimal_type(10, 2)]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]
OLD: dict[str, Any] = {"type": "record", "name": "Payment", "fields": FIELDS}
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        *FIELDS,
        {"name": "status", "type": ["null", "string"], "default": None},
        {"name": "card", "type": {"type": "record", "name": "Card", "fields": [{"name": "country", "type": "string"}]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


@pytest.fixture
def schemas() -> Iterator[ListedSchemas]:
    listed = ListedSchemas({1: OLD, 2: NEW})
    writer_schemas.bind_source(listed)
    yield listed
    writer_schemas.bind_source(None)


def list_records() -> list[RawRecord]:
    rows = [
        {
            **each,
            "amount": Decimal(each["amount"]),
            "at": NOON.replace(hour=NOON.hour + number // 60, minute=number % 60),
            "card": {"country": "DE"},
            "tags": [],
        }
        for number, each in enumerate(PAYMENTS)
    ]
    return [
        RawRecord(
            partition=0,
            offset=offset,
            log_time_micros=to_micros(NOON),
            value=encode(1, OLD, row) if row["status"] is None else encode(2, NEW, row),
        )
        for offset, row in enumerate(rows)
    ]


def test_columns_are_those_of_all_schemas_and_a_definition_reads_them(schemas: ListedSchemas) -> None:
    records, sampler = list_records(), RecordSampler()
    for record in records:
        sampler.add(record)
    sample = sampler.infer()

    types = {column.name: column.type for column in sample.guess.columns}
    assert types == {
        "merchant": "string",
        "amount": "decimal(10,2)",
        "at": "timestamp",
        "status": "string",
        "country": "string",
    }
    assert (sample.parse, sample.malformed, sample.paths) == ("avro", 0, {"country": "card.country"})
    assert sorted(schemas.requests) == [1, 2]

    drafted = replace(DRAFT, types=types, paths=dict(sample.paths), parse=sample.parse)
    reading = replace(read_log(lambda each: each["status"] == "settled"), records=[records])
    matches, _ = search(drafted, reading)
    draft = complete_draft(matches[0], SHAPE, Stated(), take_first)
    assert (draft.types["amount"], draft.measures["total"].text) == ("decimal(10,2)", 'Sum("amount")')
    assert draft.where == "status = 'settled'"
    assert verify(draft, reading).is_exact


def test_a_registry_that_does_not_respond_is_named(schemas: ListedSchemas) -> None:
    schemas.is_down, sampler = True, RecordSampler()
    for record in list_records()[:2]:
        sampler.add(record)
    with pytest.raises(LogError, match="Schema registry"):
        sampler.infer()

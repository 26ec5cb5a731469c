"""Parsing of records: the reference and Spark's parser agree on each, by field and by reason."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.model.topic import list_fields
from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from cutover.records.sending.rows import ALL_TIMES, FileContent, FileRecord, read_rows
from tests.support.rows.cells import CELLS
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "b boolean, i int, n bigint NOT NULL, x double, d decimal(5,2), s string, v date, at timestamp, other timestamp"
)
LONG = "1" * 1_000

FIELDS = {
    "b": ["true", "false", "null", '"true"', "1", "[]"],
    "i": ["0", "-0", "7", "2147483647", "2147483648", "-2147483648", "1.0", "1e3", '"12"', "true", "{}", "null"],
    "n": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.5", '"1"', "null", LONG, LONG + "1"],
    "x": ["0", "-0.0", "1", "0.1", "1e400", "-1e400", "1e308", "5e-324", "1e-400", '"1"', "NaN", "Infinity", "true"],
    "d": ["0", "-0", "1.5", "1.50", "1.500", "1.505", "999.99", "1000", "1e2", "0.00", '"1.5"', "true", "-999.99",
    "0.1e1"],
    "s": [
        '""', '"a"', '"\\u00df"', '"\\ud83d\\ude00"', '"\\ud83d"', "1", "1.0", "true", "{}", "[1]", '"a\\nb"',
        '"a\nb"', "'a'",
        '"a\tb"', '"\\u0000"', '"\\x"', '"\u2028"', "null",
    ],
    "v": ['"2013-01-31"', '"2013-02-30"', '"2013-1-1"', '"0999-12-31"', '"9000-01-01"', "20130131", '"2013-01-31 "'],
    "at": [
        '"2013-01-31T12:00:00Z"', '"2013-01-31 12:00:00"', '"2013-01-31T12:00:00.123456789+01:30"', '"2013-01-31"',
        "0", "null",
        '"2013-01-31T24:00:00Z"', '"2013-01-31T23:59:60Z"', '"2013-02-30T00:00:00Z"', '"9000-01-01T00:00:00Z"', '""',
        '"2013-01-31T12:00:00-14:59"', '"2013-01-31T12:00:00+15:00"', '"1000-01-01T00:00:00+01:00"',
        '"0000-01-01T00:00:00Z"',
        '"2013-01-31T12:00:00z"', '"2013-01-31T12:00:00\\n"', '"1969-12-31T23:59:59.9999999Z"', "true",
    ],
    "other": ['"2013-01-31T12:00:00Z"', '"garbage"', "12", "null", '"8999-12-31T23:59:59.999999Z"'],
}  # fmt: skip

WHOLE = [
    None, b"", b" ", b"null", b"[]", b"1", b'"text"', b"{}", b"{", b'{"n":1', b"\xff", b'{"n":1,"s":"\xff"}',
    b"\xef\xbb\xbf{}",
    b'{"n":1,"at":"2013-01-31T12:00:00Z"} x', b'{"n":1,"at":"2013-01-31T12:00:00Z"},{}',
    b'{"n":1,"at":"2013-01-31T12:00:00Z"}]}',
    b' \r\n\t{"n":1,"at":"2013-01-31T12:00:00Z"}\n', b'{"n":1,"at":"2013-01-31T12:00:00Z","new":1,"new":2,"N":3}',
    b'{"n":1,"n":2,"at":"2013-01-31T12:00:00Z"}', b'{"n":"a","n":2,"at":"2013-01-31T12:00:00Z"}',
    b'{"n":2,"n":"a","at":"2013-01-31T12:00:00Z"}', b'{"s":1,"s":"a","n":1,"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,,"at":"2013-01-31T12:00:00Z"}', b'{"n":01,"at":"2013-01-31T12:00:00Z"}', b"{'n':1}", b"{n:1}",
    b'{"n":1,"at":"2013-01-31T12:00:00Z",}', b'{"n":1,"at":"2013-01-31T12:00:00Z"/**/}', b"\x00\x01\x02",
    b'{"at":"garbage"}',
    b'{"n":1,"new":' + b"[" * 999 + b"]" * 999 + b',"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"new":' + b"[" * 1000 + b"]" * 1000 + b',"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"new":' + b"[" * 100_000 + b',"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"s":"' + b"x" * 300_000 + b'","at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"' + b"x" * 50_000 + b'":1,"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"' + b"x" * 50_001 + b'":1,"at":"2013-01-31T12:00:00Z"}',
    b'{"n":1,"\\u0061t":"2013-01-31T12:00:00Z"}', b'{"n":1,"at":"2013-01-31T12:00:00Z","":1}',
    b'{"n":1,"new":1e99999,"at":"2013-01-31T12:00:00Z"}', b'{"n":1,"new":NaN,"at":"2013-01-31T12:00:00Z"}',
]  # fmt: skip


def _records() -> list[bytes | None]:
    base = {"n": "1", "at": '"2013-01-31T12:00:00Z"'}
    items = [base | {name: text} for name, texts in FIELDS.items() for text in texts]
    return WHOLE + [("{" + ",".join(f'"{k}":{v}' for k, v in item.items()) + "}").encode() for item in items]


RECORDS = _records()
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema=SCHEMA, event_time="at", max_value_bytes=200_000),
    key=("s",),
    window=Fixed(hours=1),
    measures={"n_": Count()},
)


def _read_cells() -> list[FileRecord]:
    """Return a record for each nasty cell in each column of a CSV file, as `produce` sends it."""
    fine = {"n": "1", "at": "2013-01-31T12:00:00Z"}
    names = [item.name for item in list_fields(PIPELINE.source) if item.name not in {"at", "other"}]
    rows = [fine | {name: cell} for name in names for cell in CELLS]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cells.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["n", "at", *(name for name in names if name != "n")], quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)
        return list(read_rows(path, PIPELINE, FileContent(), ALL_TIMES, lambda _: None))


@pytest.fixture(scope="module")
def spark_says(spark: "SparkSession") -> list[dict[str, Any]]:
    rows = [(value, 0, offset, datetime(2013, 1, 1, tzinfo=UTC)) for offset, value in enumerate(RECORDS)]
    records = frame(spark, rows)
    return [dict(row) for row in parse_records(records, PIPELINE).toArrow().sort_by("_offset").to_pylist()]


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value


@pytest.mark.parametrize("number", range(len(RECORDS)), ids=lambda n: f"{n}-{(RECORDS[n] or b'')[:60]!r}")
def test_reference_and_spark_say_the_same_of_a_record(number: int, spark_says: list[dict[str, Any]]) -> None:
    expected, actual = parse_record(RECORDS[number], PIPELINE.source), spark_says[number]

    assert (expected.reason, expected.unknown if expected.reason is None else 0) == (
        actual["_reason"],
        actual["_unknown"],
    )
    if expected.reason is None:
        assert expected.values == {name: _comparable(actual[name]) for name in expected.values}


def test_produce_calls_malformed_what_spark_calls_malformed(spark: "SparkSession") -> None:
    records = _read_cells()
    rows = [(record.value, 0, offset, datetime(2013, 1, 1, tzinfo=UTC)) for offset, record in enumerate(records)]
    parsed_rows = parse_records(frame(spark, rows), PIPELINE).toArrow().sort_by("_offset").to_pylist()

    reasons = [None if record.malformed is None else str(record.malformed.reason) for record in records]
    assert reasons == [row["_reason"] for row in parsed_rows]
    assert {*reasons} == {None, "type", "missing"}
    texts = [row["s"] for row in parsed_rows]
    assert [text for text in texts if text is not None] == [cell for cell in CELLS if cell]

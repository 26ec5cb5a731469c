"""Strict parsing in Spark, record by record, and against plain Python."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from tests.integration.records.nasty import PIPELINE, RECORDS, Nasty
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def log_of(spark: "SparkSession", records: Sequence[Nasty]) -> "DataFrame":
    """Return records as a Kafka source gives them: the offset is the position in the list."""
    rows = [(record.value, 0, offset, NOON) for offset, record in enumerate(records)]
    return frame(spark, rows)


@pytest.fixture(scope="module")
def spark_says(spark: "SparkSession") -> Mapping[str, Mapping[str, Any]]:
    rows = parse_records(log_of(spark, RECORDS), PIPELINE).toArrow().sort_by("_offset").to_pylist()
    return {record.name: row for record, row in zip(RECORDS, rows, strict=True)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_reason_of_a_record(record: Nasty, spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    assert record.reason == spark_says[record.name]["_reason"]


@pytest.mark.quick
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_plain_python_reads_a_record_alike(record: Nasty, spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    row = spark_says[record.name]
    expected = parse_record(record.value, PIPELINE.source)

    if row["_reason"] == "expression":
        assert expected.reason is None
        return
    assert expected.reason == row["_reason"]
    if expected.reason is None:
        actual = {name: _plain(row[name]) for name in expected.values}
        assert (expected.values, expected.unknown) == (actual, row["_unknown"])


def test_negative_zero_is_zero(spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    assert str(spark_says["negative zero in a double"]["part"]) == "0.0"


def test_unknown_fields_are_counted_once_each(spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    assert spark_says["unknown fields"]["_unknown"] == 2


def test_malformed_record_has_no_event_time(spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    assert spark_says["expression fails"]["_event_time"] is None


def test_filtered_record_keeps_its_event_time(spark_says: Mapping[str, Mapping[str, Any]]) -> None:
    row = spark_says["filtered"]

    assert (row["_filtered"], row["_event_time"]) == (True, datetime(2024, 1, 1, 0, 10, tzinfo=UTC))


def test_json_is_parsed_once(spark: "SparkSession") -> None:
    plan = parse_records(log_of(spark, RECORDS[:1]), PIPELINE)._jdf.queryExecution().optimizedPlan().toString()

    assert plan.count("from_json(") == 2  # the second one only of records that the first one cannot read


def _plain(value: Any) -> Any:
    """Return a value as the reference holds it: timestamps in microseconds."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // (NOON.resolution)
    return value

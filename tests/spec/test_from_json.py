"""Values as jobs read them: the reference, Spark's parser and Spark's `from_json` itself agree on each."""

import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from cutover.timestamps import to_micros
from tests.support.rows.frames import frame
from tests.support.rows.job_values import NAMES, SCHEMA, draw_record, list_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema=SCHEMA, event_time="at", parse="from_json", max_value_bytes=200_000),
    key=("s",),
    window=Fixed(hours=1),
    measures={"n_": Count()},
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_micros(value)
    return str(value) if isinstance(value, float | Decimal) else value


def list_differences(spark: "SparkSession", records: Sequence[bytes | None], pipeline: Pipeline) -> list[Any]:
    """List the records that Spark and the reference parse differently, with what each of them says."""
    rows = [(value, 0, offset, NOON) for offset, value in enumerate(records)]
    parsed = parse_records(frame(spark, rows), pipeline).toArrow().sort_by("_offset").to_pylist()
    differences = []
    for record, row in zip(records, parsed, strict=True):
        reference = parse_record(record, pipeline.source, to_micros(NOON))
        expected = (
            reference.reason,
            reference.unknown,
            {name: _comparable(value) for name, value in reference.values.items()},
        )
        actual = (row["_reason"], row["_unknown"], {name: _comparable(row[name]) for name in reference.values})
        if (expected if reference.reason is None else expected[0]) != (
            actual if reference.reason is None else actual[0]
        ):
            differences.append((record and record[:200], expected, actual))
    return differences


def test_nasty_values(spark: "SparkSession") -> None:
    assert list_differences(spark, list_records(), PIPELINE) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_drawn_values(seed: int, spark: "SparkSession") -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test

    assert list_differences(spark, [draw_record(draw) for _ in range(2_000)], PIPELINE) == []


def test_fields_are_those_of_the_function_itself(spark: "SparkSession") -> None:
    draw = random.Random("jobs")  # noqa: S311 -- drawn values of a test
    records = [*(record for record in list_records() if record is not None), *(draw_record(draw) for _ in range(2_000))]
    log = frame(spark, [(record, 0, offset, NOON) for offset, record in enumerate(records)])
    job = log.selectExpr("offset AS _offset", f"from_json(CAST(value AS string), '{SCHEMA}') AS job")
    ours = parse_records(log, PIPELINE).where("_reason IS NULL")
    both = ours.join(job, "_offset")
    columns = [f"`{name}` <=> job.`{name}` AS `{name}`" for name in NAMES if name != "x"]
    differing = both.selectExpr("_offset", *columns, "x <=> job.x + 0D AS x").toArrow().to_pylist()

    names_by_record = {records[row["_offset"]]: [n for n in NAMES if not row[n]] for row in differing}
    different = {record: names for record, names in names_by_record.items() if names}
    assert {names[0] for names in different.values()} <= {"d", "w", "at"}
    assert all(_has_long_exponent(record) or _repeats_time(record) for record in different)
    assert len(names_by_record) > 1_500


def _has_long_exponent(record: bytes) -> bool:
    return re.search(rb'"[^"]*[eE]-?[0-9]{5}[^"]*"|"-?0{999}', record) is not None


def _repeats_time(record: bytes) -> bool:
    return record.count(b'"at"') > 1

"""Columns at nested places of the JSON: Spark's parser, and `from_json` itself, read them as the plain-Python parser.

Values are drawn with parents of other kinds, names that occur twice and broken texts, in each form and in both at once.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, JsonField, Pipeline, Topic
from cutover.definition.checks.definition import check_definition
from cutover.definition.model.topic import ParseForm
from cutover.records.parsing.parser import parse_records
from tests.spec.test_from_json import NOON, list_differences
from tests.support.rows.frames import frame
from tests.support.rows.nested_values import FIELDS, MIXED, SCHEMA, draw_nested_record, list_nasty_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_FORM: Mapping[ParseForm, ParseForm] = {"strict": "from_json", "from_json": "strict"}
RECORDS = 300
NESTED = """
    payload struct<id bigint, `at` string, `No.te [1]` string,
        after struct<flag boolean, amount decimal(10,2), day date, ts bigint>>,
    items array<struct<x double, n int, since string, price decimal(9,3), sub struct<list array<struct<text string>>>>>,
    geo struct<coordinates array<double>>, grid array<array<bigint>>, `Driver's name` string, top int
"""
"""Schema that a team's job would have for these records."""

SEEN_BY_JOB = {
    "id": "job.payload.id",
    "flag": "job.payload.after.flag",
    "amount": "job.payload.after.amount",
    "day": "job.payload.after.day",
    "x": "get(job.items, 0).x + 0D",
    "y": "get(job.items, 1).x + 0D",
    "n": "get(job.items, 1).n",
    "c": "get(job.geo.coordinates, 1) + 0D",
    "m": "get(get(job.grid, 1), 0)",
    "note": "job.payload.`No.te [1]`",
    "raw": "job.`Driver's name`",
    "deep": "get(get(job.items, 0).sub.list, 0).text",
    "price": "get(job.items, 0).price",
    "top": "job.top",
}


def make_pipeline(parse: ParseForm, *, is_mixed: bool) -> Pipeline:
    """Make a pipeline of the drawn records, in one form or with some columns in the other one."""
    fields = dict(FIELDS)
    if is_mixed:
        fields |= {name: replace(FIELDS.get(name, JsonField()), parse=OTHER_FORM[parse]) for name in MIXED}
    source = Topic(name="t", schema=SCHEMA, event_time="at", parse=parse, fields=fields)
    pipeline = Pipeline(name="p", source=source, key=("note",), window=Fixed(hours=1), measures={"n_": Count()})
    check_definition(pipeline)
    return pipeline


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("parse", OTHER_FORM)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_spark_and_the_reference_agree(*, parse: ParseForm, is_mixed: bool, seed: int, spark: "SparkSession") -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test

    records = [draw_nested_record(draw) for _ in range(RECORDS)]

    assert list_differences(spark, records, make_pipeline(parse, is_mixed=is_mixed)) == []


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("parse", OTHER_FORM)
def test_nasty_places_are_read_alike(*, parse: ParseForm, is_mixed: bool, spark: "SparkSession") -> None:
    assert list_differences(spark, list_nasty_records(), make_pipeline(parse, is_mixed=is_mixed)) == []


@pytest.mark.quick
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_columns_are_those_of_a_job_with_the_nested_schema(*, seed: int, spark: "SparkSession") -> None:
    draw = random.Random(f"job{seed}")  # noqa: S311 -- drawn values of a test
    records = [draw_nested_record(draw) for _ in range(RECORDS)]
    log = frame(spark, [(record, 0, offset, NOON) for offset, record in enumerate(records)])
    schema = " ".join(NESTED.replace("'", r"\'").split())
    job = log.selectExpr("offset AS _offset", f"from_json(CAST(value AS string), '{schema}') AS job")

    both = parse_records(log, make_pipeline("from_json", is_mixed=False)).where("_reason IS NULL").join(job, "_offset")
    compared = both.selectExpr("_offset", *(f"{name} <=> {value} AS {name}" for name, value in SEEN_BY_JOB.items()))

    rows = compared.toArrow().to_pylist()
    assert len(rows) > RECORDS / 8
    assert [
        (records[row["_offset"]], [name for name in SEEN_BY_JOB if not row[name]])
        for row in rows
        if not all(row[name] for name in SEEN_BY_JOB)
    ] == []

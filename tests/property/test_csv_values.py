"""Lines of CSV: Spark's parser, `from_csv` itself and the plain-Python reader agree on each."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.checks.definition import check_definition
from cutover.definition.model.topic import CsvOptions, list_fields
from cutover.quoting import spark_literal
from cutover.records.classes import Reason
from cutover.records.parsing.parser import parse_records
from cutover.records.reference.parse import parse_record
from tests.spec.test_from_json import NOON, list_differences
from tests.support.rows.csv_values import OPTIONS, SCHEMA, draw_line, list_lines
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = 1_500
TOPIC = Topic(name="t", schema=SCHEMA, event_time="at", parse="csv", max_value_bytes=200_000)


def make_pipeline(options: CsvOptions, topic: Topic = TOPIC) -> Pipeline:
    source = replace(topic, csv=options)
    return Pipeline(name="p", source=source, key=("s",), window=Fixed(hours=1), measures={"n_": Count()})


@pytest.mark.quick
def test_nasty_lines_are_read_alike(spark: "SparkSession") -> None:
    options = OPTIONS[0]
    check_definition(make_pipeline(options))

    assert list_differences(spark, list_lines(options), make_pipeline(options)) == []


@pytest.mark.parametrize("options", OPTIONS[1:], ids=lambda options: repr(options.delimiter))
def test_nasty_lines_in_other_dialects_are_read_alike(options: CsvOptions, spark: "SparkSession") -> None:
    check_definition(make_pipeline(options))

    assert list_differences(spark, list_lines(options), make_pipeline(options)) == []


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), options=st.sampled_from(OPTIONS))
def test_drawn_lines_are_read_alike(seed: int, options: CsvOptions, spark: "SparkSession") -> None:
    draw = random.Random(seed)  # noqa: S311 -- drawn values of a test

    lines = [draw_line(draw, options) for _ in range(LINES)]

    assert list_differences(spark, lines, make_pipeline(options)) == []


@pytest.mark.parametrize("time_format", ["millis", "dd.MM.yyyy HH:mm"])
def test_other_formats_of_times_are_read_alike(time_format: str, spark: "SparkSession") -> None:
    topic = Topic(name="t", schema="s string NOT NULL, at timestamp", event_time="at", parse="csv")
    cells = ["1772409600000", "02.03.2026 01:02", "9" * 19, "2.3.2026 01:02", "", "x", "-1", "2026"]

    lines = [f"{name},{cell}".encode() for cell in cells for name in ("a", "")]

    pipeline = make_pipeline(CsvOptions(), replace(topic, time_format=time_format))
    assert list_differences(spark, lines, pipeline) == []


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: repr(options.delimiter))
def test_columns_are_those_of_the_function_itself(options: CsvOptions, spark: "SparkSession") -> None:
    draw = random.Random(repr(options))  # noqa: S311 -- drawn values of a test
    pipeline = make_pipeline(options)
    drawn = [draw_line(draw, options) for _ in range(2 * LINES)]
    lines = [line for line in drawn if parse_record(line, pipeline.source).reason is not Reason.TYPE]
    log = frame(spark, [(line, 0, offset, NOON) for offset, line in enumerate(lines)])
    listed = {
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.escape,
        "nullValue": options.null_value,
    }
    pairs = ", ".join(f"'{name}', {spark_literal(text)}" for name, text in listed.items())
    job = log.selectExpr("offset AS _offset", f"from_csv(CAST(value AS string), '{SCHEMA}', map({pairs})) AS job")

    both = parse_records(log, pipeline).where("_reason IS NULL").join(job, "_offset")

    names = [field.name for field in list_fields(pipeline.source)]
    columns = [f"`{n}` <=> job.`{n}`{' + 0D' if n == 'x' else ''} AS `{n}`" for n in names]
    rows = both.selectExpr("_offset", *columns).toArrow().to_pylist()
    different = {lines[row["_offset"]]: [n for n in names if not row[n]] for row in rows}
    assert {line: wrong for line, wrong in different.items() if wrong and b"0e123456" not in line} == {}
    assert len(rows) > LINES / 20


def test_texts_are_read_alike(spark: "SparkSession") -> None:
    source = Topic(name="t", schema="line string NOT NULL, at timestamp", event_time="at", parse="text")
    pipeline = replace(make_pipeline(CsvOptions()), source=source, key=("line",))

    records = [None, b"", b"a", "\u00e9\n\0".encode(), b"\xff", b"x" * 1_000_001]

    assert list_differences(spark, records, pipeline) == []

"""Partial aggregates in Spark, from bytes to rows, and folded in DuckDB against plain Python."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from cutover.definition import Sessions
from cutover.engine import queries
from cutover.log.kafka import RawRecord
from cutover.records import reference
from cutover.records.classify import classify_records
from cutover.records.fold import finish_sql
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from tests.integration.records.nasty import AT, PIPELINE, RECORDS
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LOG_TIME = (NOON - EPOCH) // NOON.resolution
PARTITIONS = 3
VALUES = (*(record.value for record in RECORDS), ("{" + AT + ',"must":"y","whole":3,"text":"t"}').encode()) * 2
RAW = tuple(
    RawRecord(partition=i % PARTITIONS, offset=i // PARTITIONS, log_time_micros=LOG_TIME, value=value)
    for i, value in enumerate(VALUES)
)


def frame_of(spark: "SparkSession", records: Sequence[RawRecord]) -> "DataFrame":
    return frame(spark, [(r.value, r.partition, r.offset, NOON) for r in records])


@pytest.fixture(scope="module")
def classified_rows(spark: "SparkSession") -> "DataFrame":
    return classify_records(parse_records(frame_of(spark, RAW), PIPELINE), PIPELINE, watermark_micros=None)


@pytest.fixture(scope="module")
def partials(classified_rows: "DataFrame") -> pa.Table:
    return aggregate_partials(classified_rows, PIPELINE).toArrow()


@pytest.fixture(scope="module")
def expected() -> reference.Result:
    return reference.compute_reference(PIPELINE, RAW)


def test_columns_are_the_partial_shape_in_order(partials: pa.Table) -> None:
    states = ["n", "total", "money", "most", "first", "mean__sum", "mean__count"]

    assert partials.column_names == [
        "_class",
        "window_start",
        "window_end",
        "must",
        "text",
        *states,
        "_n",
        "_positions",
        "_partition",
        "_unknown",
    ]


def test_counts_by_class_are_those_of_plain_python(partials: pa.Table, expected: reference.Result) -> None:
    counts = {
        row["_class"]: row["_n_sum"] for row in partials.group_by("_class").aggregate([("_n", "sum")]).to_pylist()
    }

    assert {str(name): n for name, n in expected.counts.items() if n} == counts


def test_unknown_fields_are_those_of_plain_python(partials: pa.Table, expected: reference.Result) -> None:
    assert expected.unknown == sum(row["_unknown"] for row in partials.to_pylist())


def test_ledger_is_that_of_plain_python(partials: pa.Table, expected: reference.Result) -> None:
    assert {_entry(row) for row in expected.ledger} == set(_ledger(partials))


def test_each_record_that_does_not_count_has_a_row_of_its_own(partials: pa.Table) -> None:
    assert {1} == {len(row["_positions"]) for row in partials.to_pylist() if row["_positions"] is not None}


def test_filtered_records_are_counted_by_partition(partials: pa.Table) -> None:
    rows = [row for row in partials.to_pylist() if row["_class"] == "filtered"]

    assert len(rows) == len({row["_partition"] for row in rows}) > 0
    assert {(row["_positions"], row["window_start"], row["must"], row["n"]) for row in rows} == {(None,) * 4}


def test_fold_is_the_result_of_plain_python(partials: pa.Table, expected: reference.Result) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("partials", partials)
    rows = queries.query_table(connection, finish_sql(PIPELINE, "partials")).to_pylist()
    connection.close()

    folded = {
        (_micros(row["window_start"]), _micros(row["window_end"]), (row["must"], row["text"])): (
            row["_n"],
            {name: row[name] for name in PIPELINE.measures},
        )
        for row in rows
    }
    assert {group: (row.n, dict(row.measures)) for group, row in expected.rows.items()} == folded


def test_rows_that_touch_are_one_session_to_the_microsecond(spark: "SparkSession") -> None:
    pipeline = replace(PIPELINE, window=Sessions("10 minutes"))
    # Exactly a gap apart, and a microsecond more: of the four only the last one is a separate session.
    times = ("00:00:00.000001", "00:10:00.000001", "00:20:00.000001", "00:30:00.000002")
    apart = [('{"must":"sessions","at":"2024-01-01T' + time + 'Z"}').encode() for time in times]
    raw = [*RAW, *(RawRecord(partition=9, offset=i, log_time_micros=LOG_TIME, value=v) for i, v in enumerate(apart))]
    expected = reference.compute_reference(pipeline, raw)

    partial_rows = aggregate_partials(
        classify_records(parse_records(frame_of(spark, raw), pipeline), pipeline, watermark_micros=None), pipeline
    )

    rows = partial_rows.toArrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("partials", rows)
        counted_rows = queries.query_table(connection, finish_sql(pipeline, "partials")).to_pylist()
    accepted = [(r["must"], _micros(r["window_start"]), _micros(r["window_end"]), r["_n"]) for r in counted_rows]
    assert sorted(accepted) == sorted((key[0], start, end, r.n) for (start, end, key), r in expected.rows.items())
    assert [n for must, *_, n in sorted(accepted) if must == "sessions"] == [3, 1]
    counts = Counter(dict.fromkeys(expected.counts, 0))
    for r in rows.to_pylist():
        counts[r["_class"]] += r["_n"]
    assert counts == Counter({str(name): n for name, n in expected.counts.items()})


def test_further_grouping_by_partition_leaves_out_the_shape_s_own(classified_rows: "DataFrame") -> None:
    partial_rows = aggregate_partials(
        classified_rows, PIPELINE, by=("_partition",), extra_aggregates={"last": "max(_offset)"}
    )

    assert (partial_rows.columns[0], partial_rows.columns.count("_partition"), partial_rows.columns[-1]) == (
        "_partition",
        1,
        "last",
    )


def test_one_shuffle_makes_the_partial_aggregates(classified_rows: "DataFrame") -> None:
    plan = aggregate_partials(classified_rows, PIPELINE)._jdf.queryExecution().executedPlan().toString()

    assert plan.count("Exchange ") == 1


def test_next_epoch_s_watermark_compiles_nothing_anew(spark: "SparkSession") -> None:
    rows = parse_records(frame_of(spark, RAW[:3]), PIPELINE)
    compilations = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]  # the JVM is there

    counts = []
    for watermark in (LOG_TIME, LOG_TIME + 1):
        aggregate_partials(classify_records(rows, PIPELINE, watermark_micros=watermark), PIPELINE).toArrow()
        counts.append(compilations.getCount())

    assert counts[0] == counts[1]


def _ledger(partials: pa.Table) -> list[tuple[Any, ...]]:
    return [
        (
            row["_class"],
            p["partition"],
            p["offset"],
            _micros(row["window_start"]),
            _micros(p["event_time"]),
            p["reason"],
        )
        for row in partials.to_pylist()
        for p in row["_positions"] or ()
    ]


def _entry(row: reference.UncountedPair) -> tuple[Any, ...]:
    reason = None if row.reason is None else str(row.reason)
    return (str(row.cls), row.partition, row.offset, row.window_start, row.event_time, reason)


def _micros(value: datetime | None) -> int | None:
    return None if value is None else (value - EPOCH) // NOON.resolution

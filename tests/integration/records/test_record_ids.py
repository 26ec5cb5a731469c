"""Record ids in Spark: of which event times they are remembered, and how the records of known ids are marked."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cutover.definition import Count, Fixed, Lateness, Pipeline, Topic
from cutover.records import classify
from cutover.records.classify import classify_records
from cutover.timestamps import MICROSECONDS
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

MINUTE, HOUR = MICROSECONDS["minute"], MICROSECONDS["hour"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARSED = (
    "_partition int, _offset bigint, _log_time timestamp, _event_time timestamp, _reason string, _filtered boolean,"
    " _unknown int, id bigint"
)
PIPELINE = Pipeline(
    name="p",
    source=Topic(
        name="t", schema="id bigint NOT NULL, at timestamp", event_time="at", record_id="id", id_horizon="1 hour"
    ),
    key=("id",),
    window=Fixed(hours=6),
    measures={"n": Count()},
    lateness=Lateness(allowed="0 seconds", max_ahead="1 day"),
)
WATERMARK = 10 * HOUR
REMEMBERED = WATERMARK - HOUR


def parse_events(spark: "SparkSession", events: "Sequence[int]", *, partition: int = 0) -> "DataFrame":
    """Return well formed records of these event times, in microseconds; id and offset are the place in the list."""
    times = [EPOCH + timedelta(microseconds=event) for event in events]
    rows: list[tuple[Any, ...]] = [
        (partition, offset, time, time, None, False, 0, offset) for offset, time in enumerate(times)
    ]
    return frame(spark, rows, PARSED)


def classes(spark: "SparkSession", events: "Sequence[int]", watermark: int | None) -> list[str]:
    records = classify_records(parse_events(spark, events), PIPELINE, watermark_micros=watermark)
    table = records.select("_offset", "_class").toArrow().sort_by("_offset")
    return [str(row["_class"]) for row in table.to_pylist()]


def test_record_of_a_forgotten_minute_is_late_though_its_window_is_open(spark: "SparkSession") -> None:
    assert classes(spark, [REMEMBERED - 1, REMEMBERED], WATERMARK) == ["late", "accepted"]


@pytest.mark.quick
def test_record_of_a_closed_window_is_late_though_its_id_is_remembered(spark: "SparkSession") -> None:
    closed = 12 * HOUR

    assert classes(spark, [closed - 1, closed], closed) == ["late", "accepted"]


@pytest.mark.quick
def test_ids_are_looked_up_of_what_is_remembered_alone(spark: "SparkSession") -> None:
    records = parse_events(spark, [REMEMBERED - 1, REMEMBERED, REMEMBERED + MINUTE])

    candidates = classify.select_candidates(records, PIPELINE, WATERMARK).toArrow().sort_by("offset")

    assert candidates.to_pylist() == [
        {"id": 1, "event_time": REMEMBERED, "partition": 0, "offset": 1},
        {"id": 2, "event_time": REMEMBERED + MINUTE, "partition": 0, "offset": 2},
    ]


def test_ids_of_every_time_are_looked_up_before_the_first_watermark(spark: "SparkSession") -> None:
    records = parse_events(spark, [0, REMEMBERED])

    assert classify.select_candidates(records, PIPELINE, None).toArrow().sort_by("offset")["offset"].to_pylist() == [
        0,
        1,
    ]


@pytest.mark.quick
def test_records_are_flagged_at_more_positions_than_a_query_lists(spark: "SparkSession") -> None:
    records = parse_events(spark, [0, 1, 2]).unionAll(parse_events(spark, [0, 1, 2], partition=1))
    places = [(0, 1), (1, 2), *((2, offset) for offset in range(classify.MOST_LISTED))]
    columns = {"partition": pa.array([p for p, _ in places], pa.int32()), "offset": pa.array([o for _, o in places])}

    rows, is_twin = classify.flag_records(records, pa.table(columns))

    flagged_rows = rows.selectExpr("_partition", "_offset", f"{is_twin} AS twin").toArrow().to_pylist()
    assert len(flagged_rows) == 3 + 3
    assert {(row["_partition"], row["_offset"]) for row in flagged_rows if row["twin"]} == {(0, 1), (1, 2)}

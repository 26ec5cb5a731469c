"""Windows and classes of records in Spark; times in microseconds since 1970."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from cutover.definition import Count, Daily, Fixed, Global, Lateness, Monthly, Pipeline, Topic
from cutover.definition.windows.kinds import CalendarWindows, SlidingWindows
from cutover.definition.windows.window_fn import AlignedWindowFn
from cutover.records.classify import classify_records
from cutover.timestamps import MICROSECONDS
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE, HOUR = MICROSECONDS["minute"], MICROSECONDS["hour"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARSED = (
    "_partition int, _offset bigint, _log_time timestamp, _event_time timestamp, _reason string, _filtered boolean, "
    "_unknown int"
)
LOG_TIME = 100 * HOUR
TOPIC = Topic(name="t", schema="at timestamp", event_time="at")
LATENESS = Lateness(allowed="10 minutes", max_ahead="1 hour")


def pipeline_of(window: AlignedWindowFn) -> Pipeline:
    return Pipeline(name="p", source=TOPIC, key=("at",), window=window, measures={"n": Count()}, lateness=LATENESS)


def classify(
    spark: "SparkSession",
    window: AlignedWindowFn,
    events: Sequence[int],
    *,
    watermark: int | None = None,
    field_values: Mapping[str, Any] | None = None,
    by_slice: bool = False,
) -> list[dict[str, Any]]:
    """Return (offset, class, start, end, unknown) of records of these event times, by offset and start."""
    fields = {"_reason": None, "_filtered": False} | dict(field_values or {})
    rows = [
        (0, offset, moment(LOG_TIME), moment(event), fields["_reason"], fields["_filtered"], 3)
        for offset, event in enumerate(events)
    ]
    records = classify_records(
        frame(spark, rows, PARSED), pipeline_of(window), watermark_micros=watermark, by_slice=by_slice
    )
    columns = ["_offset", "_class", "window_start", "window_end", "_unknown"]
    table = records.select(*columns).toArrow().sort_by([("_offset", "ascending"), ("window_start", "ascending")])
    return [row | {name: micros(row[name]) for name in columns[2:4]} for row in table.to_pylist()]


def moment(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def micros(value: datetime | None) -> int | None:
    return None if value is None else (value - EPOCH) // timedelta(microseconds=1)


EVENTS = (0, 1, HOUR - 1, HOUR, -1, -HOUR, -HOUR - 1, 90 * MINUTE + 7)
ZONES = ("UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe")
CHANGED = (
    "2024-03-31",
    "2024-10-27",
    "2024-11-03",
    "2018-11-04",
    "2011-12-29",
    "2024-04-06",
    "1969-10-26",
    "2022-03-27",
    "1919-03-31",
    "1850-06-01",
    "2024-02-28",
    "2024-12-31",
    "1995-01-01",
)
CLOCK_CHANGES = tuple(
    (datetime.fromisoformat(day).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) + hours * HOUR // 2 + shift
    for day in CHANGED
    for hours in range(-24, 96)
    for shift in (-1, 0)
)


@pytest.mark.quick(
    "SlidingWindows(size=7, every=3, offset=2)",
    "Global()",
    "Daily(zone='Europe/Berlin', offset='0 hours')",
    "Daily(zone='Pacific/Apia', offset='0 hours')",
    "Daily(zone='Australia/Lord_Howe', offset='150 minutes')",
)
@pytest.mark.parametrize(
    "window",
    [
        Fixed(hours=1),
        SlidingWindows(size=HOUR, every=HOUR // 2),
        SlidingWindows(size=HOUR, every=25 * MINUTE),
        SlidingWindows(size=7, every=3),
        Fixed(hours=1, offset="20 minutes"),
        SlidingWindows(size=7, every=3, offset=2),
        Global(),
        *(Daily(zone=zone, offset=offset) for zone in ZONES for offset in ("0 hours", "150 minutes", "23 hours")),
        *(Monthly(zone=zone, first_day=day, offset="150 minutes") for zone in ZONES for day in (1, 28)),
        *(Daily(zone=zone) for zone in ("Asia/Beirut", "America/Toronto")),  # skip midnight, or half an hour about it
    ],
    ids=str,
)
def test_windows_of_a_record_are_those_of_the_definition(spark: "SparkSession", window: AlignedWindowFn) -> None:
    events = (*EVENTS, *CLOCK_CHANGES) if isinstance(window, CalendarWindows) else EVENTS
    expected = [(offset, *interval) for offset, event in enumerate(events) for interval in window.assign_windows(event)]

    classified = classify(spark, window, events)

    assert expected == [(row["_offset"], row["window_start"], row["window_end"]) for row in classified]


def test_window_is_late_from_the_watermark_that_reaches_its_end_and_the_allowed_lateness(spark: "SparkSession") -> None:
    closing = HOUR + 10 * MINUTE

    assert [row["_class"] for row in classify(spark, Fixed(hours=1), [5], watermark=closing - 1)] == ["accepted"]
    assert [row["_class"] for row in classify(spark, Fixed(hours=1), [5], watermark=closing)] == ["late"]


def test_without_a_watermark_nothing_is_late(spark: "SparkSession") -> None:
    assert [row["_class"] for row in classify(spark, Fixed(hours=1), [-900 * HOUR])] == ["accepted"]


def test_a_record_can_be_late_in_one_window_and_accepted_in_the_next(spark: "SparkSession") -> None:
    classified = classify(
        spark, SlidingWindows(size=HOUR, every=HOUR // 2), [45 * MINUTE], watermark=HOUR + 10 * MINUTE
    )

    assert [row["_class"] for row in classified] == ["late", "accepted"]


def test_event_further_ahead_of_its_log_time_than_allowed_is_future(spark: "SparkSession") -> None:
    classified = classify(spark, Fixed(hours=1), [LOG_TIME + HOUR, LOG_TIME + HOUR + 1])

    assert [row["_class"] for row in classified] == ["accepted", "future"]


def test_future_comes_before_late(spark: "SparkSession") -> None:
    classified = classify(spark, Fixed(hours=1), [LOG_TIME + 2 * HOUR], watermark=999 * HOUR)

    assert [row["_class"] for row in classified] == ["future"]


@pytest.mark.parametrize(
    ("columns", "expected"), [({"_reason": "json"}, "malformed"), ({"_filtered": True}, "filtered")]
)
def test_record_without_a_window_keeps_one_row(
    spark: "SparkSession", columns: Mapping[str, Any], expected: str
) -> None:
    events = [0] if expected == "filtered" else []
    rows = [(0, 0, moment(LOG_TIME), moment(0) if events else None, columns.get("_reason"), bool(events), 3)]
    sliding = pipeline_of(SlidingWindows(size=HOUR, every=HOUR // 2))

    classified_rows = classify_records(frame(spark, rows, PARSED), sliding, watermark_micros=999 * HOUR).collect()

    assert [(row["_class"], row["window_start"], row["window_end"]) for row in classified_rows] == [
        (expected, None, None)
    ]


def test_unknown_fields_of_a_record_are_counted_in_its_newest_window(spark: "SparkSession") -> None:
    assert [row["_unknown"] for row in classify(spark, SlidingWindows(size=HOUR, every=20 * MINUTE), [0])] == [0, 0, 3]


@pytest.mark.quick
@pytest.mark.parametrize(
    "window",
    [
        SlidingWindows(size=HOUR, every=HOUR // 2),
        SlidingWindows(size=HOUR, every=25 * MINUTE),
        SlidingWindows(size=HOUR, every=7 * MINUTE, offset=2 * MINUTE),
    ],
    ids=str,
)
def test_rows_of_slices_stand_for_the_windows_of_records_that_are_late_in_none(
    spark: "SparkSession", window: SlidingWindows
) -> None:
    events = [*EVENTS, LOG_TIME + HOUR, LOG_TIME + HOUR + 1, *range(0, 3 * HOUR, 11 * MINUTE)]
    length = window.slice_micros

    classified = classify(spark, window, events, watermark=2 * HOUR, by_slice=True)
    sliced = [row for row in classified if row["window_end"] - row["window_start"] == length]
    opened = [
        row | {"window_start": start, "window_end": end, "_unknown": row["_unknown"] if start == newest else 0}
        for row in sliced
        for newest in (window.assign_windows(row["window_start"])[-1].start,)
        for start, end in window.assign_windows(row["window_start"])
    ]

    assert 0 < len(sliced) < len(events)
    assert all(row["window_start"] <= events[row["_offset"]] < row["window_end"] for row in sliced)
    assert {row["_offset"] for row in sliced}.isdisjoint(row["_offset"] for row in classified if row not in sliced)
    assert classify(spark, window, events, watermark=2 * HOUR) == sorted(
        [*opened, *(row for row in classified if row not in sliced)],
        key=lambda row: (row["_offset"], row["window_start"]),
    )

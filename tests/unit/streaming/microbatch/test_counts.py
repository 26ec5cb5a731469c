"""Totals of an epoch: pairs, records, unknown fields, the share of the largest key, and times."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.windows.kinds import SlidingWindows
from cutover.lake.tables.schemas import partial_schema
from cutover.records.classes import Class
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import EpochCounts, EpochPlan

TOPIC = Topic(name="t", schema="k string, at timestamp", event_time="at")
PLAN = EpochPlan(epoch=3, start={0: 5}, end={0: 90, 1: 3}, clipped=False, watermark=None)


def pipeline(window: Any = None, key: tuple[str, ...] = ("k",)) -> Pipeline:
    return Pipeline(name="p", source=TOPIC, key=key, window=window or Fixed(hours=1), measures={"n": Count()})


def counts(**nonzero: int) -> dict[str, int]:
    return {kind.value: 0 for kind in Class} | nonzero


def test_an_epoch_without_data_counts_nothing() -> None:
    assert EpochCounts(counts=counts(), records=0, unknown=0) == aggregate.NOTHING
    assert aggregate.sum_counts({}, pipeline(), PLAN) == aggregate.NOTHING


@pytest.mark.parametrize(
    ("window", "records"),
    [
        (Fixed(hours=1), 2 + 1 + 30 + 10),
        (SlidingWindows(size=10, every=2), 2 + 1 + (30 + 10) // 5),
        (SlidingWindows(size=10, every=3), 85 + 3),  # in three windows or four: only the number of offsets is known
    ],
    ids=["one window each", "five windows each", "some"],
)
def test_a_record_is_one_pair_in_each_of_its_windows(window: Any, records: int) -> None:
    by_class = {"accepted": (30, 4), "late": (10, 1), "malformed": (2, 0), "filtered": (1, 2)}

    assert aggregate.sum_counts(by_class, pipeline(window), PLAN) == EpochCounts(
        counts=counts(accepted=30, late=10, malformed=2, filtered=1), records=records, unknown=4 + 1 + 2
    )


def rows(*class_rows: tuple[str, str | None, int, int | None]) -> pa.Table:
    row_dicts = [
        {"_class": kind, "k": key, "_n": pairs, "_unknown": unknown} for kind, key, pairs, unknown in class_rows
    ]
    return pa.Table.from_pylist(row_dicts, schema=partial_schema(pipeline()))


def test_rows_of_a_class_are_summed_with_their_unknown_fields() -> None:
    partial_rows = rows(("accepted", "a", 3, 1), ("accepted", "b", 2, 4), ("late", "a", 1, None))

    assert aggregate.sum_partial_rows(partial_rows, pipeline(), PLAN) == EpochCounts(
        counts=counts(accepted=5, late=1), records=6, unknown=5
    )


@pytest.mark.parametrize(
    ("class_rows", "key", "expected"),
    [
        ([("accepted", "a", 2, 0), ("accepted", "b", 1, 0), ("accepted", "a", 1, 0)], ("k",), 3 / 4),
        ([("accepted", "a", 2, 0), ("late", "b", 9, 0)], ("k",), 1.0),
        ([("late", "b", 9, 0)], ("k",), None),
        ([("accepted", "a", 2, 0)], (), None),
    ],
    ids=["two keys", "late rows", "nothing accepted", "no key"],
)
def test_the_share_of_the_largest_key_is_of_accepted_pairs(
    class_rows: list[tuple[str, str | None, int, int | None]], key: tuple[str, ...], expected: float | None
) -> None:
    assert aggregate.one_key_share(rows(*class_rows), pipeline(key=key)) == expected


@pytest.mark.parametrize(
    ("observed", "newest", "oldest"),
    [({"p0": 5, "p11": None, "p2": 0, "ago": -7}, {0: 5, 2: 0}, 7), ({"p0": None, "ago": None}, {}, None)],
)
def test_newest_events_are_by_partition_and_the_oldest_log_time_is_one(
    observed: Mapping[str, int | None], newest: Mapping[int, int], oldest: int | None
) -> None:
    batch_pass: Any = SimpleNamespace(observation=SimpleNamespace(get=observed))

    assert (aggregate.newest_events(batch_pass), aggregate.oldest_log_time(batch_pass)) == (newest, oldest)

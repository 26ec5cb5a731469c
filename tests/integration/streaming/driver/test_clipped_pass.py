"""The pass over a micro-batch that reaches beyond its epoch: what lies behind the epoch's end is left for later."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cutover.definition import Count, Fixed, Max, Pipeline, Topic
from cutover.streaming.microbatch import aggregate
from cutover.streaming.microbatch.aggregate import EpochPlan
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, k string, v bigint", event_time="at", time_format="seconds"),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count(), "most": Max("v")},
)
PLACES = [(partition, offset) for partition in (0, 1, 2) for offset in range(4)]


def value(partition: int, offset: int) -> bytes:
    return json.dumps({"at": SECONDS + offset, "k": f"p{partition}", "v": offset}).encode()


@pytest.fixture(scope="module")
def pass_result(spark: "SparkSession") -> tuple[pa.Table, dict[int, int]]:
    """Return rows and newest event times of an epoch that ends at offset 3 of partition 0 and begins partition 1."""
    batch = frame(spark, [(value(*place), *place, NOON) for place in PLACES])
    plan = EpochPlan(epoch=0, start={0: 0, 1: 0}, end={0: 3, 1: 0}, clipped=True, watermark=None)
    one_pass = aggregate.one_pass(batch, PIPELINE, plan)
    rows = aggregate.collect_partials(one_pass.partials, PIPELINE)
    return rows, aggregate.newest_events(one_pass)


@pytest.mark.quick
def test_offsets_from_the_end_on_and_partitions_that_the_epoch_does_not_name_are_left_out(
    pass_result: tuple[pa.Table, dict[int, int]],
) -> None:
    rows = [(row["k"], row["n"], row["most"]) for row in pass_result[0].to_pylist()]

    assert rows == [("p0", 3, 2)]


def test_records_behind_the_end_move_no_time(pass_result: tuple[pa.Table, dict[int, int]]) -> None:
    assert pass_result[1] == {0: (SECONDS + 2) * 1_000_000}

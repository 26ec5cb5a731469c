"""Every measure through Spark, epoch by epoch, and DuckDB's fold, against plain Python."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own alias

from cutover.definition import Quantile
from cutover.lake.tables.schemas import partial_schema
from cutover.log.kafka import RawRecord
from cutover.reconcile.comparison.layout import same, to_plain
from cutover.records import reference
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from tests.support.rows.frames import frame
from tests.support.rows.measured import EPOCH, PIPELINE, bucket, finish_partials, micros, raw_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = 4


@pytest.fixture(scope="module")
def records() -> list[RawRecord]:
    return raw_records(240)


@pytest.fixture(scope="module")
def epochs(spark: "SparkSession", records: Sequence[RawRecord]) -> list[pa.Table]:
    """Return the partial aggregates of the log in parts, as they are committed."""
    schema = partial_schema(PIPELINE)
    parts = [records[start::PARTS] for start in range(PARTS)]
    return [_partials(spark, part).select(schema.names).cast(schema) for part in parts]


def _partials(spark: "SparkSession", records: Sequence[RawRecord]) -> pa.Table:
    rows = [(r.value, r.partition, r.offset, EPOCH + timedelta(microseconds=r.log_time_micros)) for r in records]
    parsed = parse_records(frame(spark, rows), PIPELINE)
    return aggregate_partials(classify_records(parsed, PIPELINE, watermark_micros=None), PIPELINE).toArrow()


@pytest.mark.parametrize("name", PIPELINE.measures)
def test_fold_of_all_epochs_is_the_result_of_plain_python(
    epochs: Sequence[pa.Table], records: Sequence[RawRecord], name: str
) -> None:
    actual = {_group(row): to_plain(row[name]) for row in finish_partials(epochs)}
    expected = {group: row.measures[name] for group, row in reference.compute_reference(PIPELINE, records).rows.items()}

    assert expected.keys() == actual.keys()
    assert {g: (value, actual[g]) for g, value in expected.items() if not same(value, actual[g])} == {}


def test_order_of_the_epochs_does_not_matter(epochs: Sequence[pa.Table]) -> None:
    exact = [name for name in PIPELINE.measures if name != "noisy"]
    other_states = {_group(row): [row[name] for name in exact] for row in finish_partials(epochs)}
    back = {_group(row): [row[name] for name in exact] for row in finish_partials(list(reversed(epochs)))}

    assert other_states == back


def test_a_bucket_is_exact_beside_every_power_of_two(spark: "SparkSession") -> None:
    powers = [math.ldexp(1.0, power) for power in range(-1074, 1024)]
    near = [other for p in powers for other in (p, math.nextafter(p, 0.0), math.nextafter(p, math.inf), -p)]
    numbers = frame(spark, [(number,) for number in near], "x double")
    (state,) = Quantile("x", 0.5).states("q", "double")
    quantiles = numbers.groupBy("x").agg(F.expr(state.create).alias("q")).collect()

    assert [row for row in quantiles if row["q"][0]["value"] != bucket(row["x"], 7)] == []


def _group(row: Mapping[str, Any]) -> tuple[int, int, tuple[Any, ...]]:
    return (micros(row["window_start"]), micros(row["window_end"]), (row["k"],))

"""Rows joined with dimensions in Spark, each with the version of its place in the log, against plain Python."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cutover.definition import Count, Fixed, Lookup, Max, Pipeline, Sum, Topic
from cutover.lake.dimensions import dimension
from cutover.lake.dimensions import joined_versions as dimension_frames
from cutover.lake.dimensions.joined_versions import VersionSpan
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.classify import classify_records
from cutover.records.parsing.parser import parse_records
from cutover.records.partials import aggregate_partials
from cutover.settings import Settings
from tests.property.folds.test_records import counts, expected_rows, fold_rows
from tests.support.rows.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PARTITIONS, RECORDS, CHANGES = 2, 200, 120  # records and the offset where the dimensions change, in each partition
PIPELINE = Pipeline(
    name="p",
    source=Topic(name="t", schema="at timestamp, ad string, v int", event_time="at", time_format="seconds"),
    lookups={
        "ads": Lookup(table="ads", on={"ad": "id", "v": "v"}, columns={"campaign": "bigint", "factor": "int"}),
        "campaigns": Lookup(table="campaigns", on={"campaign": "campaign"}, columns={"rate": "decimal(4,2)"}),
    },
    where="campaign IS NULL OR campaign <> 3",
    derive={"share": "10 / factor"},  # which fails for a factor of 0
    key=("campaign",),
    window=Fixed(hours=1),
    measures={"n": Count(), "paid": Sum("rate"), "most": Max("share")},
)
ADS = ("hot", "b", "off", "zero", None, "new")  # nine of ten records are of the first
LOG = tuple(
    RawRecord(
        partition=partition,
        offset=offset,
        log_time_micros=int(NOON.timestamp()) * 1_000_000,
        value=json.dumps(
            {"at": int(NOON.timestamp()) + 60 * offset, "ad": ADS[offset // 10 % 6 if offset % 10 == 0 else 0], "v": 1}
        ).encode(),
    )
    for partition in range(PARTITIONS)
    for offset in range(RECORDS)
)


def write(settings: Settings, campaigns: Sequence[int | None], rates: Sequence[str]) -> None:
    ads: dict[str, list[Any]] = {
        "id": [*ADS[:4], None],
        "v": [1] * 5,
        "campaign": [*campaigns, 9],
        "factor": [2, 5, 1, 0, 1],
    }
    kinds: dict[str, pa.DataType] = {"id": pa.string(), "v": pa.int32(), "campaign": pa.int64(), "factor": pa.int32()}
    table = pa.table({name: pa.array(values, kinds[name]) for name, values in ads.items()})
    write_deltalake(dimension.own_uri(settings, "ads"), table, mode="overwrite")
    paid = pa.array(rates, pa.string()).cast(pa.decimal128(4, 2))
    rates_by_campaign = pa.table({"campaign": pa.array(range(1, len(rates) + 1), pa.int64()), "rate": paid})
    write_deltalake(dimension.own_uri(settings, "campaigns"), rates_by_campaign, mode="overwrite")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = Settings(home=Path(tmp_path_factory.mktemp("lookups")))
    write(settings, (1, 2, 3, 4), ("1.50", "2.50"))
    write(settings, (2, None, 3, 4), ("1.50", "99.99", "3.00"))
    return settings


def join_records(spark: "SparkSession", settings: Settings, versions: Sequence[int], limit: int) -> pa.Table:
    spans = [
        VersionSpan(partition=partition, first=start, next=end, version=version, table_id="")
        for partition in range(PARTITIONS)
        for version, (start, end) in enumerate([(0, CHANGES), (CHANGES, RECORDS)])
    ]
    frames = {
        name: dimension_frames.join_versions(
            spark,
            [dimension.open_dimension(PipelineLake(settings, PIPELINE), name, v) for v in versions],
            spans,
            broadcast_rows=limit,
        )
        for name in PIPELINE.lookups
    }
    rows = [(r.value, r.partition, r.offset, NOON + timedelta(0)) for r in LOG]
    records = frame(spark, rows)
    return aggregate_partials(
        classify_records(parse_records(records, PIPELINE, frames), PIPELINE, watermark_micros=None), PIPELINE
    ).toArrow()


@pytest.mark.quick("versions0-0")
@pytest.mark.parametrize(("versions", "limit"), [((1,), 0), ((0, 1), 100)])  # large in one version, small in two
def test_rows_take_columns_as_plain_python_says_also_with_one_key_above_all(
    spark: "SparkSession", settings: Settings, versions: tuple[int, ...], limit: int
) -> None:
    plain = {
        v: {
            name: dimension.plain(dimension.open_dimension(PipelineLake(settings, PIPELINE), name, v))
            for name in PIPELINE.lookups
        }
        for v in versions
    }
    expected = reference.compute_reference(
        PIPELINE, LOG, dimensions=lambda raw: plain[int(raw.offset >= CHANGES) if len(versions) > 1 else 1]
    )

    joined_rows = join_records(spark, settings, versions, limit)

    assert expected_rows(expected) == fold_rows(PIPELINE, joined_rows, [Class.ACCEPTED])
    assert expected.counts == counts(joined_rows)
    assert {expected.counts[kind] > 0 for kind in (Class.MALFORMED, Class.FILTERED, Class.ACCEPTED)} == {True}

"""Definitions whose batch job is a team's own: what two engines need not compute alike is rejected."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.cli.lint import warnings
from cutover.definition import (
    ApproxDistinct,
    BatchJob,
    CompactedTopic,
    Count,
    Daily,
    Delta,
    Fixed,
    Iceberg,
    Lookup,
    Parquet,
    Pipeline,
    Postgres,
    SameDefinition,
    SelfJoin,
    Sliding,
    SparkStream,
    Sum,
    Topic,
)
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.fingerprint import batch_fingerprint, job_fingerprints, result_fingerprint
from cutover.errors import DefinitionError
from cutover.lake.recorded_definitions import decode_definition, encode_definition

JOB = BatchJob(table=Postgres(table="analytics.hourly", server="PAYMENTS_DB"), columns={"ids": "total"})
PIPELINE = Pipeline(
    name="payments",
    source=Topic(name="payments", schema="id bigint NOT NULL, shop string, at timestamp", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"n": Count(), "ids": Sum("id")},
    batch=JOB,
)
TABLES = (
    JOB.table,
    Delta("s3://lake/hourly"),
    Parquet("/data/hourly"),
    Iceberg("/data/iceberg/hourly"),
    Iceberg("iceberg://lake/analytics.hourly"),
    CompactedTopic(topic="payments_hourly"),
    CompactedTopic(topic="kafka://broker:9092/payments_hourly", time_format="millis"),
)
STREAM = SparkStream(table=Delta("/data/table"), checkpoint="/data/checkpoint", output_mode="update")


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_table_of_each_kind_is_accepted_and_recorded(table: Any) -> None:
    for pipeline in (replace(PIPELINE, batch=BatchJob(table=table)), replace(PIPELINE, stream=STREAM)):
        check_definition(pipeline)
        assert decode_definition(encode_definition(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("batch.table", {"batch": BatchJob(table=Delta("lake/hourly"))}),
        ("batch.table", {"batch": BatchJob(table=Delta("hdfs://lake/hourly"))}),
        ("batch.table", {"batch": BatchJob(table=Parquet("s3://lake/hourly"))}),
        ("batch.table", {"batch": BatchJob(table="/data/hourly")}),  # type: ignore[arg-type]
        ("batch.table.topic", {"batch": BatchJob(table=CompactedTopic(topic="a/b"))}),
        ("batch.table.topic", {"batch": BatchJob(table=CompactedTopic(topic="postgresql://host/hourly"))}),
        ("batch.table.time_format", {"batch": BatchJob(table=CompactedTopic(topic="t", time_format="days"))}),
        ("batch.table.table", {"batch": BatchJob(table=Postgres(table="a b", server="DB"))}),
        ("batch.columns", {"batch": replace(JOB, columns={"amount": "total"})}),
        ("batch.where", {"batch": replace(JOB, where=" ")}),
        ("batch (where nothing)", {"batch": replace(JOB, where="nothing")}),
        ("batch (where shop", {"batch": replace(JOB, where="shop = 'a' -- and no more")}),
        ("batch.once_by", {"batch": replace(JOB, once_by="id")}),  # type: ignore[arg-type]
        ("batch.once_by", {"batch": replace(JOB, once_by=("id", "shop"))}),
        ("source.record_id", {"batch": replace(JOB, once_by=("shop",))}),  # may be null
        ("batch.once_by", {"batch": replace(JOB, once_by=("id",)), "source": replace(PIPELINE.source, record_id="id")}),
        ("window", {"window": Daily("UTC")}),
        ("measures.shops", {"measures": {"shops": ApproxDistinct("shop")}}),
        ("join", {"join": SelfJoin(on=("id",), left="id > 0", right="id < 0"), "key": (), "measures": {"n": Count()}}),
        ("lookups", {"lookups": {"s": Lookup(table="shops", on={"id": "shop"}, columns={"city": "string"})}}),
    ],
)
def test_what_need_not_be_computed_alike_is_rejected_with_its_field(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as error:
        check_definition(replace(PIPELINE, **change))

    assert str(error.value).startswith(f"{field}: expected ") or field in str(error.value)


@pytest.mark.parametrize(
    "table",
    [
        Postgres(table="analytics.hourly", server="postgresql://me:secret@host/db"),
        Delta("s3://me:secret@bucket/hourly"),
        Delta("postgresql://me:secret@host/db"),
        Iceberg("postgresql://me:secret@host/db"),
        CompactedTopic(topic="kafka://me:secret@host/hourly"),
        "postgresql://me:secret@host/db#analytics.hourly",
    ],
)
def test_no_message_shows_a_password(table: Any) -> None:
    with pytest.raises(DefinitionError) as error:
        check_definition(replace(PIPELINE, batch=BatchJob(table=table)))

    assert "secret" not in str(error.value)


def test_another_table_leaves_our_results_and_is_other_evidence() -> None:
    moved = replace(PIPELINE, batch=BatchJob(table=Delta("/data/hourly")))
    own = replace(PIPELINE, batch=SameDefinition())

    for pipeline in (moved, own):
        assert result_fingerprint(pipeline) == result_fingerprint(PIPELINE)
        assert batch_fingerprint(pipeline) == batch_fingerprint(PIPELINE) == "same"
    assert job_fingerprints(own) == {}
    assert job_fingerprints(PIPELINE).keys() == {"batch"}
    assert job_fingerprints(moved) != job_fingerprints(PIPELINE)
    with_rules = replace(PIPELINE, batch=replace(JOB, where="shop <> 'x'", once_by=("id",)))
    check_definition(with_rules)
    assert result_fingerprint(with_rules) == result_fingerprint(PIPELINE)
    assert job_fingerprints(with_rules) != job_fingerprints(PIPELINE)
    assert decode_definition(encode_definition(with_rules)) == with_rules
    assert job_fingerprints(replace(PIPELINE, stream=STREAM)).keys() == {"streaming", "batch"}


def test_lint_warns_of_records_ahead_of_time_unless_none_are() -> None:
    def count(pipeline: Pipeline) -> int:
        return sum("lateness.max_ahead" in warning for warning in warnings(pipeline))

    assert count(PIPELINE) == 1
    assert count(replace(PIPELINE, stream=STREAM)) == 0
    assert count(replace(PIPELINE, window=Sliding(size="1 hour", every="20 minutes"))) == 1

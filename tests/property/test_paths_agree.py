"""The paths themselves, over a real log and real tables: reference, driver and batch agree, and reconcile says so."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from batch import recompute
from cutover.definition import Pipeline
from cutover.lake import tables, versions
from cutover.lake.epochs import EpochLog
from cutover.lake.paths import batch_uri
from cutover.log.kafka import LogClient, RawRecord
from cutover.records import reference
from cutover.records.classes import Class
from cutover.records.fold import finished_sql
from cutover.settings import Kafka, Settings, Spark, Stream
from reconcile.result import Verdict
from reconcile.run import reconcile
from streaming import driver
from tests.support.logs import PARTITIONS, event_logs, pipelines

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FEW = settings(
    max_examples=3,
    phases=(Phase.generate,),  # an example takes seconds: one that fails is shown as it was drawn
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

Rows = Mapping[tuple[int, tuple[Any, ...]], dict[str, Any]]


def installation(home: Path, bootstrap: str) -> Settings:
    return Settings(
        home=home,
        kafka=Kafka(bootstrap_servers=bootstrap),
        spark=Spark(master="local[2]", driver_memory="1g"),
        stream=Stream(trigger_seconds=0.05, heartbeat_seconds=0.2),
    )


def send(config: Settings, topic: str, log: Sequence[RawRecord]) -> None:
    LogClient(config).create_topic(topic, partitions=PARTITIONS, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": str(config.kafka.bootstrap_servers), "linger.ms": 1})
    for r in log:
        producer.produce(topic, value=r.value, partition=r.partition, timestamp=r.log_time_micros // 1000)
    assert producer.flush(30) == 0


def rows_of(pipeline: Pipeline, query: str, uri: str, view: str) -> Rows:
    connection = tables.connect()
    tables.relation(connection, view, uri)
    found = connection.sql(query).to_arrow_table().to_pylist()
    return {
        ((row["window_start"] - EPOCH) // timedelta(microseconds=1), tuple(row[name] for name in pipeline.key)): {
            name: row[name] for name in pipeline.measures
        }
        for row in found
    }


def streamed(pipeline: Pipeline, uri: str, *keep: Class) -> Rows:
    return rows_of(pipeline, finished_sql(pipeline, "epoch_log", keep=keep), uri, "epoch_log")


def expected(result: reference.Result) -> Rows:
    return {(start, key): dict(row.measures) for (start, _, key), row in result.rows.items()}


@pytest.mark.usefixtures("spark")
@FEW
@given(data=st.data(), log=event_logs(most=60).filter(bool))
def test_reference_driver_and_batch_agree_on_any_log(
    kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, log: tuple[RawRecord, ...]
) -> None:
    config = installation(tmp_path_factory.mktemp("agree"), kafka_bootstrap)
    drawn = data.draw(pipelines(topic=f"agree-{uuid.uuid4().hex[:8]}"))
    pipeline = replace(drawn, max_rows_per_epoch=data.draw(st.sampled_from([3, 7, 20])))
    send(config, pipeline.source.name, log)

    driver.run(config, pipeline, until="final")
    recompute.run(config, pipeline)
    found = reconcile(config, pipeline)

    version = versions.current(config, pipeline)
    assert version is not None
    epochs = [record for record in EpochLog(version.uri).records() if not record.tick]
    with_lateness = reference.run(pipeline, log, epochs=[record.end for record in epochs])
    truth = expected(reference.run(pipeline, log))
    assert expected(with_lateness) == streamed(pipeline, version.uri, Class.ACCEPTED)
    assert with_lateness.watermarks == tuple(record.watermark_after for record in epochs)
    assert truth == streamed(pipeline, version.uri, Class.ACCEPTED, Class.LATE)
    assert truth == rows_of(pipeline, "SELECT * FROM batch", batch_uri(config, pipeline), "batch")
    assert found.verdict in {Verdict.CONSISTENT, Verdict.EXPLAINED}

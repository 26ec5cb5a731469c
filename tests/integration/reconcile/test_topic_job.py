"""A team's batch job whose rows are the records of a compacted topic, compared at the position that it has recorded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from cutover.cli.position import position as show_position
from cutover.definition import BatchJob, CompactedTopic
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Finding, Verdict
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, reconcile, write
from tests.integration.reconcile.test_batch_job import POSITION, READ, UNREAD, compute, find_job

Fields = dict[str, Any]


class TopicJob:
    """Batch job that writes its rows to a topic as a team would: rows, flush, ends, position."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.client, self.topic = LogClient(settings), topic
        self.client.create_topic(topic, partitions=2, config={"cleanup.policy": "compact"})
        self.producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
        self.address = f"kafka://{settings.kafka.bootstrap_servers}/{topic}"

    def send(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            key = f"{row['window_start']}/{row['shop']}/{row['desk']}"
            fields = {**row, "window_start": format_time(row["window_start"])}
            self.producer.produce(self.topic, json.dumps(fields, default=str), key=key)
        assert self.producer.flush(30) == 0

    def delete(self, row: Mapping[str, Any]) -> None:
        self.producer.produce(self.topic, None, key=f"{row['window_start']}/{row['shop']}/{row['desk']}")
        assert self.producer.flush(30) == 0

    def record(self, topics: object = POSITION) -> None:
        consumer = self.client.consumer()
        ends = {str(p): consumer.get_watermark_offsets(TopicPartition(self.topic, p))[1] for p in (0, 1)}
        consumer.close()
        value = {"format": "cutover.position/1", "topics": topics, "topic_ids": {"sales": "topic-1"}}
        value["table"] = {"ends": ends}
        self.producer.produce(self.topic, json.dumps(value), key="cutover.position")
        assert self.producer.flush(30) == 0


def format_time(time: datetime) -> str:
    return time.isoformat()


@pytest.fixture
def job(kafka_settings: Settings, topic_name: str) -> TopicJob:
    return TopicJob(kafka_settings, topic_name)


def open_lake(tmp_path: Path, table: CompactedTopic, **options: Any) -> PipelineLake:
    pipeline = replace(PIPELINE, batch=BatchJob(table=table, **options))
    lake = PipelineLake(Settings(home=tmp_path / "home"), pipeline)
    write(lake.settings, lake_of([*READ, *UNREAD], pipeline), pipeline)
    return lake


def select(rows: Sequence[Fields]) -> list[Fields]:
    return [{name: row[name] for name in ("window_start", *PIPELINE.key, *PIPELINE.measures)} for row in rows]


def explain_rejection(finding: Finding) -> str:
    assert (finding.verdict, finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    return finding.sentence


def test_a_topic_is_compared_at_the_position_that_its_job_has_recorded(job: TopicJob, tmp_path: Path) -> None:
    lake = open_lake(tmp_path, CompactedTopic(topic=job.address))
    rows = select(compute(READ))
    assert "expected a column to read, got none" in explain_rejection(reconcile(lake).finding)
    job.send(select(compute(READ[:1])))  # of an earlier run
    assert "has no record with the key `cutover.position`" in explain_rejection(reconcile(lake).finding)
    job.record()
    job.send(rows)
    assert "rows were written after it" in explain_rejection(reconcile(lake).finding)
    job.record()
    found = find_job(reconcile(lake).finding)
    assert (found.level, found.rows, found.different, found.position) == ("reproduced", 3, 0, "sales 0:5")

    job.send([rows[0] | {"revenue": rows[0]["revenue"] + 1}])
    job.record()
    finding = reconcile(lake).finding
    assert (finding.verdict, find_job(finding).different_values) == (Verdict.DIVERGED, 1)
    assert [(cell.measure, cell.job, cell.expected) for cell in find_job(finding).cells] == [("revenue", 5, 4)]

    job.delete(rows[1])
    assert "rows were written after it" in explain_rejection(reconcile(lake).finding)
    job.record()
    finding = reconcile(lake).finding
    assert (find_job(finding).missing, find_job(finding).is_attributed, find_job(finding).doubts) == (1, True, ())
    assert "fields are not read" in explain_rejection(reconcile(open_nested(job, tmp_path, rows)).finding)


def open_nested(job: TopicJob, tmp_path: Path, rows: Sequence[Fields]) -> PipelineLake:
    """Let the job write an object into a column, and return a lake of it."""
    job.send([rows[0] | {"most": {"of": 1}}])
    job.record()
    return open_lake(tmp_path / "nested", CompactedTopic(topic=job.address))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sales": "many"}, "column `sales`: expected numbers without an exponent, got 1 other text"),
        ({"revenue": "1E+2"}, "column `revenue`: expected numbers without an exponent, got 1 other text"),
        ({"mean": "1,5"}, "column `mean`: expected numbers, got 1 other text"),
        ({"window_start": "yesterday"}, "column `window_start`: expected times in the form `iso`"),
        ({"window_start": 1767225600000}, "column `window_start`: expected times in the form `iso`"),
        ({"shops": "a"}, None),
    ],
    ids=str,
)
def test_texts_that_are_no_values_of_the_definition_are_rejected(
    change: Fields, message: str | None, job: TopicJob, tmp_path: Path
) -> None:
    lake = open_lake(tmp_path, CompactedTopic(topic=job.address))
    job.send(select(compute(READ)))
    job.producer.produce(job.topic, json.dumps({"window_start": "2026-01-01", **change}), key="another")
    assert job.producer.flush(30) == 0
    job.record()

    finding = reconcile(lake).finding

    assert (finding.verdict is Verdict.DIVERGED) if message is None else (message in explain_rejection(finding))


@pytest.mark.quick
def test_times_since_1970_and_the_message_key_are_columns(job: TopicJob, tmp_path: Path) -> None:
    shops = [Sale(hour=0, shop="x"), Sale(hour=1, shop="y", amount=7)]
    columns = {"shop": "_key", "window_start": "hour"}
    pipeline = replace(
        PIPELINE, batch=BatchJob(table=CompactedTopic(topic=job.address, time_format="millis"), columns=columns)
    )
    lake = PipelineLake(Settings(home=tmp_path / "home"), pipeline)
    write(lake.settings, lake_of(shops, pipeline), pipeline)
    for row in select(compute(shops)):
        fields = {name: row[name] for name in ("desk", *PIPELINE.measures)}
        hour = int(row["window_start"].timestamp() * 1000)
        job.producer.produce(job.topic, json.dumps({"hour": hour, **fields}, default=str), key=row["shop"])
    assert job.producer.flush(30) == 0
    job.record({"sales": {"0": 2}})

    found = find_job(reconcile(lake).finding)

    assert (found.level, found.rows) == ("reproduced", 2)
    output = show_position(table=job.address)
    assert output.exit_code == 0
    assert "sales 0:2" in " ".join(map(str, output.lines))

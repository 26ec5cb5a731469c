"""Watching a real log beside a real epoch log."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from cutover.cli import main
from cutover.clock import SystemClock
from cutover.definition import catalogue
from cutover.definition.pipeline import Pipeline
from cutover.errors import LakeError, LogError
from cutover.lake import tables, versions
from cutover.lake.epochs import EpochRecord
from cutover.lake.schemas import epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.settings import Kafka, Settings
from reconcile.watch.observe import Observer, driver

DEFINITION = """
from cutover.definition import Count, Fixed, Pipeline, Topic

clicks = Pipeline(
    name="clicks",
    source=Topic(name="TOPIC", schema="who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
)
"""
NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1000
CLOCK = SystemClock()


@pytest.fixture
def place(kafka_settings: Settings, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return settings of a topic with two partitions: ten records in the first, a minute apart, none in the other."""
    (tmp_path / "clicks.py").write_text(DEFINITION.replace("TOPIC", topic_name))
    monkeypatch.setenv("CUTOVER_HOME", str(kafka_settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(kafka_settings.kafka.bootstrap_servers))
    LogClient(kafka_settings).create_topic(topic_name, partitions=2, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": str(kafka_settings.kafka.bootstrap_servers)})
    for number in range(10):
        producer.produce(topic_name, b"{}", partition=0, timestamp=NOON + number * 60_000)
    assert producer.flush(30) == 0
    return kafka_settings.model_copy(update={"pipelines": tmp_path})


@pytest.fixture
def clicks(place: Settings) -> Pipeline:
    """Return the pipeline, its epoch 0 committed up to offset 4."""
    pipeline = catalogue.get(place, "clicks")
    version = versions.open_or_create(place, pipeline, CLOCK)
    record = EpochRecord(
        epoch=0,
        run_id="r",
        topic=pipeline.source.name,
        topic_id="T",
        cluster_id="C",
        start={0: 0, 1: 0},
        end={0: 4, 1: 0},
        max_event={0: NOON * 1000},
        watermark_before=None,
        watermark_after=NOON * 1000,
        counts={"accepted": 3, "late": 1},
        records=4,
        seconds=0.1,
        processing_time=CLOCK.now().isoformat(),
    )
    schema = epoch_log_schema(pipeline)
    table = tables.ensure(version.uri, schema, partition_by=["_kind"])
    row = {"_kind": "epoch", "_epoch": 0, "_record": record.to_json()}
    tables.append(table, pa.Table.from_pylist([row], schema=schema))
    return pipeline


def beat(settings: Settings, **changes: object) -> None:
    """Write the heartbeat of this very process."""
    folder = settings.run_dir / "clicks"
    folder.mkdir(parents=True, exist_ok=True)
    own = {"pid": os.getpid(), "started": psutil.Process().create_time(), "run_id": "r", "state": "RUNNING"}
    (folder / "heartbeat.json").write_text(json.dumps(own | changes))


def test_sample_holds_log_ends_and_the_log_time_that_is_unread(place: Settings, clicks: Pipeline) -> None:
    sample, _ = Observer(place, clicks, CLOCK).sample()

    assert dict(sample.ends) == {0: 10, 1: 0}
    assert (sample.newest[0] - sample.unread_since[0]) / 1e6 == (9 - 4) * 60


def test_command_prints_one_word_and_the_numbers_behind_it(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(place)
    code = main(["watch", clicks.name, "--once", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["verdict"], found["unread"], found["late_share"]) == (0, "OK", 10 - 4, 1 / 4)
    assert [(p["partition"], p["unread"], p["seconds"]) for p in found["partitions"]] == [(0, 6, 300.0), (1, 0, 0.0)]
    assert [one["runbook"] for one in found["advice"]] == ["LateRateHigh"]


def test_command_says_stopped_when_no_driver_lives(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(place, started=0.0)
    assert main(["watch", clicks.name, "--once"]) == 0

    said = capsys.readouterr().out
    assert "STOPPED" in said
    assert "docs/runbooks/StreamNotRunning.md" in said


def test_heartbeat_of_a_process_that_is_gone_is_not_alive(place: Settings) -> None:
    beat(place, started=0.0)

    assert (driver(place, "clicks").alive, driver(place, "clicks").state) == (False, "DIED")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"state": 1}'])
def test_half_a_heartbeat_is_no_driver(settings: Settings, text: str) -> None:
    folder = settings.run_dir / "clicks"
    folder.mkdir(parents=True)
    (folder / "heartbeat.json").write_text(text)

    assert driver(settings, "clicks").alive is False


def test_pipeline_without_an_epoch_is_one_clear_message(place: Settings) -> None:
    with pytest.raises(LakeError, match="expected at least one committed epoch"):
        Observer(place, catalogue.get(place, "clicks"), CLOCK).sample()


def test_broker_that_does_not_answer_is_one_clear_message(place: Settings, clicks: Pipeline) -> None:
    silent = place.model_copy(update={"kafka": Kafka(bootstrap_servers="127.0.0.1:1", timeout_seconds=1.0)})

    with pytest.raises(LogError, match="KafkaUnreachable"):
        Observer(silent, clicks, CLOCK).sample()

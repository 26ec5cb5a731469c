"""Watching a real log and a real epoch log."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from deltalake import CommitProperties, DeltaTable, Transaction

from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import Topic
from cutover.driver_state import read_driver_state
from cutover.errors import LakeError, LogError
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import checksums, commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.process import identify_current
from cutover.reconcile.watch.ages import compute_period
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector, LogObserver
from cutover.reconcile.watch.facts import SchemaMismatch
from cutover.reconcile.watch.findings import describe_mismatch, find_schema_mismatches
from cutover.settings import KafkaSettings, Settings
from tests.support.suite.until import until

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
    version = versions.open_or_create(PipelineLake(place, pipeline), CLOCK)
    stem = checksums.new_stem("epoch", 0)
    record = EpochRecord(
        epoch=0,
        files=checksums.encode_weight(checksums.compute_weight("_kind=epoch", stem)),
        run_id="r",
        topic=pipeline.source.name,
        topic_id=LogClient(place).topic_id(pipeline.source.name),
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
    table = delta.ensure(version.uri, schema, partition_by=["_kind"])
    row = {"_kind": "epoch", "_epoch": 0, "_record": record.to_json()}
    commit = CommitProperties(
        custom_metadata={"userMetadata": record.to_json()}, app_transactions=[Transaction(version.app_id, 0)]
    )
    commits.append(table, pa.Table.from_pylist([row], schema=schema), stem=stem, commit=commit)
    return pipeline


def beat(settings: Settings, **changes: object) -> None:
    """Write the heartbeat of this very process."""
    folder = settings.run_dir / "clicks"
    folder.mkdir(parents=True, exist_ok=True)
    heartbeat_fields = {
        **asdict(identify_current()),
        "run_id": "r",
        "state": "RUNNING",
        "at": SystemClock().now().isoformat(),
    }
    (folder / "heartbeat.json").write_text(json.dumps(heartbeat_fields | changes))


def recreate(settings: Settings, topic: str) -> None:
    """Delete the topic and make it again, empty."""
    admin = AdminClient({"bootstrap.servers": str(settings.kafka.bootstrap_servers)})
    admin.delete_topics([topic])[topic].result()
    until(lambda: topic not in LogClient(settings).topics())
    LogClient(settings).create_topic(topic, partitions=2, config={"retention.ms": "-1"})


def epoch_log_uri(lake: PipelineLake) -> str:
    version = versions.find_current_version(lake)
    assert version is not None
    return version.uri


@pytest.mark.quick
def test_sample_holds_log_ends_and_the_log_time_that_is_unread(place: Settings, clicks: Pipeline) -> None:
    sample, _ = LogObserver(PipelineLake(place, clicks), CLOCK).sample()

    assert dict(sample.end_offsets) == {0: 10, 1: 0}
    assert (sample.newest_times[0] - sample.first_unread_times[0]) / 1e6 == (9 - 4) * 60


@pytest.mark.quick
def test_command_prints_one_word_and_the_numbers_behind_it(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(place)
    code = main(["watch", clicks.name, "--once", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["verdict"], answer["unread"], answer["late_share"]) == (0, "OK", 10 - 4, 1 / 4)
    assert [(p["partition"], p["unread"], p["seconds"]) for p in answer["partitions"]] == [(0, 6, 300.0), (1, 0, 0.0)]
    assert [alert["name"] for alert in answer["alerts"]] == ["LateRateHigh"]


def test_command_says_stopped_when_no_driver_lives(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(place, started=0.0)
    monkeypatch.setenv("CUTOVER_ALERTS__STALLED_SECONDS", "0")
    monkeypatch.setenv("CUTOVER_STREAM__TRIGGER_SECONDS", "0")
    assert main(["watch", clicks.name, "--once"]) == 0

    output = capsys.readouterr().out
    assert "STOPPED" in output
    assert "page  docs/runbooks/StreamNotRunning.md: no driver lives" in output


def test_heartbeat_of_a_process_that_is_gone_is_not_alive(place: Settings) -> None:
    beat(place, started=0.0)

    assert (read_driver_state(place, "clicks").alive, read_driver_state(place, "clicks").state) == (False, "DIED")


@pytest.mark.quick
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"state": 1}'])
def test_half_a_heartbeat_says_neither_that_a_driver_lives_nor_that_none_does(settings: Settings, text: str) -> None:
    folder = settings.run_dir / "clicks"
    folder.mkdir(parents=True)
    (folder / "heartbeat.json").write_text(text)

    with pytest.raises(LakeError, match="the heartbeat of `clicks`") as caught:
        read_driver_state(settings, "clicks")
    assert caught.value.runbook == "TableUnreadable"


@pytest.mark.quick
def test_pipeline_without_an_epoch_is_one_clear_message(place: Settings) -> None:
    with pytest.raises(LakeError, match="expected at least one committed epoch"):
        LogObserver(PipelineLake(place, catalogue.get(place, "clicks")), CLOCK).sample()


def test_broker_that_does_not_answer_is_one_clear_message(place: Settings, clicks: Pipeline) -> None:
    silent = place.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:1", timeout_seconds=1.0)})

    with pytest.raises(LogError, match="KafkaUnreachable"):
        LogObserver(PipelineLake(silent, clicks), CLOCK).sample()


def firing(lake: PipelineLake) -> list[str]:
    return [alert.name for alert in list_firing(FactCollector(lake, CLOCK).collect())]


def test_silent_broker_is_a_fact_and_no_failure(
    place: Settings, clicks: Pipeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(place, silent_since="2026-01-01T00:00:00+00:00")
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("CUTOVER_KAFKA__TIMEOUT_SECONDS", "1")
    assert main(["watch", clicks.name, "--once"]) == 2

    output = capsys.readouterr().out
    assert "UNKNOWN" in output
    assert "docs/runbooks/KafkaUnreachable.md: no answer from the broker for" in output


@pytest.mark.quick
def test_topic_made_again_fires_alone(place: Settings, clicks: Pipeline) -> None:
    recreate(place, clicks.source.name)

    lake = PipelineLake(place, clicks)
    assert "TopicIdentityChanged" in firing(lake)
    assert "LogDataLost" not in firing(lake)


def test_start_of_the_log_behind_the_position_fires(place: Settings, clicks: Pipeline) -> None:
    admin = AdminClient({"bootstrap.servers": str(place.kafka.bootstrap_servers)})
    for future in admin.delete_records([TopicPartition(clicks.source.name, 0, 6)]).values():
        future.result()

    facts = FactCollector(PipelineLake(place, clicks), CLOCK).collect()
    texts = {alert.name: alert.text for alert in list_firing(facts)}
    assert (
        texts["LogDataLost"]
        == f"topic {clicks.source.name}, partition 0: offset 4 is next, the log starts at 6: 2 are lost"
    )


def test_retention_of_the_topic_is_known(place: Settings, clicks: Pipeline) -> None:
    resource = ConfigResource(ResourceType.TOPIC, clicks.source.name)
    change = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(change)
    admin = AdminClient({"bootstrap.servers": str(place.kafka.bootstrap_servers)})
    admin.incremental_alter_configs([resource])[resource].result()

    until(lambda: "RetentionHeadroomLow" in firing(PipelineLake(place, clicks)), 10)


def test_open_transaction_shows_between_stable_and_high_offset(place: Settings, clicks: Pipeline) -> None:
    topic = clicks.source.name
    producer = Producer({"bootstrap.servers": str(place.kafka.bootstrap_servers), "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=1, timestamp=NOON)
    producer.flush(30)
    sample, _ = LogObserver(PipelineLake(place, clicks), CLOCK).sample()
    producer.abort_transaction()

    assert (sample.end_offsets[1], sample.high_watermarks[1]) == (0, 1)


@pytest.mark.quick
def test_field_that_the_schema_does_not_name_is_told_with_its_first_offset(place: Settings, clicks: Pipeline) -> None:
    topic = clicks.source.name
    producer = Producer({"bootstrap.servers": str(place.kafka.bootstrap_servers)})
    for extra in ({}, {"new\x1b": 1}, {"new\x1b": 2}):
        value = json.dumps({"who": "a", "at": "2026-03-01T12:00:00Z", **extra})
        producer.produce(topic, value.encode(), partition=1, timestamp=NOON)
    producer.flush(30)
    lake = PipelineLake(place, clicks)
    records = LogObserver(lake, CLOCK).read_epochs()
    epochs = EpochLog(epoch_log_uri(lake))
    records_seen = replace(records[0], unknown=2, start={1: 0}, end={1: 3})

    assert list(find_schema_mismatches(clicks, epochs, LogClient(place), [records_seen])) == [
        SchemaMismatch(description=r"field `new\x1b` is not in the schema", partition=1, offset=1)
    ]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"who": "a", "at": "2026-03-01T12:00:00Z"}', None),
        (b'{"who": "a"}', "field `at` is missing"),
        (b'{"who": 1, "at": "2026-03-01T12:00:00Z"}', "field `who` is no string"),
        (b'{"who": "a", "at": 12}', "field `at` is no timestamp"),
        (b'{"whom": "a", "at": "2026-03-01T12:00:00Z"}', "field `whom` is not in the schema"),
        (b"{", None),
        (None, None),
    ],
)
def test_field_that_does_not_fit_is_named(value: bytes | None, expected: str | None) -> None:
    topic = Topic(name="t", schema="who string, at timestamp NOT NULL", event_time="at")

    assert describe_mismatch(value, topic) == expected


def test_batch_is_due_by_the_definitions_schedule() -> None:
    assert compute_period("30 4 * * *", CLOCK.now(), 2.0) == timedelta(days=1)


@pytest.mark.parametrize(
    ("newest", "due"),
    [
        ("2026-11-20T09:05:00+00:00", "2026-11-24T09:05:00+00:00"),  # a Friday: Monday and Tuesday may pass
        ("2026-11-23T09:05:00+00:00", "2026-11-25T09:05:00+00:00"),
        ("2026-11-26T09:05:00+00:00", "2026-11-30T09:05:00+00:00"),
        ("2026-11-23T09:00:00+00:00", "2026-11-25T09:00:00+00:00"),
    ],
)
def test_a_weekend_without_a_run_is_no_run_that_is_missing(newest: str, due: str) -> None:
    newest_at = datetime.fromisoformat(newest)

    assert newest_at + 2 * compute_period("0 9 * * 1-5", newest_at, 2.0) == datetime.fromisoformat(due)


@pytest.mark.quick
def test_table_that_cannot_be_read_is_an_alert_of_its_own(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    for file in Path(epoch_log_uri(lake)).rglob("*.parquet"):
        file.unlink()

    assert firing(lake) == ["TableUnreadable"]


def test_transaction_ahead_of_the_newest_row_is_an_alert(place: Settings, clicks: Pipeline) -> None:
    lake = PipelineLake(place, clicks)
    version = versions.find_current_version(lake)
    assert version is not None
    ahead = CommitProperties(app_transactions=[Transaction(version.app_id, 1)])
    schema = epoch_log_schema(clicks)
    commits.append(DeltaTable(version.uri), schema.empty_table(), commit=ahead)

    texts = {alert.name: alert.text for alert in list_firing(FactCollector(lake, CLOCK).collect())}
    assert "transaction says 1, newest epoch row is 0" in texts["EpochHistoryBroken"]
